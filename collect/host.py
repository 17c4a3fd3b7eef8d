"""Who this process is: rank and world, the machine, the loaders.

Nothing here imports torch or initialises a device; it looks whether the job has.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

RANK_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
MOST_DIGITS = 9  # of a rank: what is longer is some other number
LOADER_SETTINGS = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "drop_last",
    "in_order",
)


def torch_if_loaded() -> Any:
    """Return the torch module when the job has imported it, else None."""
    return sys.modules.get("torch")


def rank_and_world() -> tuple[int, int] | None:
    """Return rank and world size from torch.distributed or the launcher, None when neither tells."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    for rank, world in RANK_VARIABLES:
        told = os.environ.get(rank, ""), os.environ.get(world, "")
        if all(one.isdecimal() and len(one) <= MOST_DIGITS for one in told):
            return int(told[0]), int(told[1])
    return None


def backend() -> str | None:
    """Return the backend of torch.distributed's default group, or None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return str(distributed.get_backend())


def facts() -> dict[str, Any]:
    """Return what a session file tells about the process and its machine, whatever is known by now."""
    torch = torch_if_loaded()
    local = os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_LOCALID")
    known: dict[str, Any] = {
        "local_rank": int(local) if local and local.isdecimal() else None,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "backend": backend(),
        "devices": None,
        "device_name": None,
        "device_memory": None,
        "cores": usable_cores(),
        "torch": None if torch is None else str(torch.__version__),
        "python": platform.python_version(),
        "command": list(getattr(sys, "orig_argv", sys.argv)),
    }
    device = accelerator(torch)
    if device is not None:
        properties = device.get_device_properties(device.current_device())
        known["devices"] = device.device_count()
        known["device_name"] = properties.name
        known["device_memory"] = properties.total_memory
    elif torch is not None and torch.version.cuda is torch.version.hip is torch.version.xpu is None:
        known["devices"] = 0  # a build for CPUs; asking any other would initialise the driver
    return known


def accelerator(torch: Any) -> Any:
    """Return torch.cuda or torch.xpu when the job has begun to use it, else None."""
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module is not None and module.is_initialized():
            return module
    return None


def usable_cores() -> int | None:
    """Return how many cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count()


def loader_settings(loader: Any) -> dict[str, Any]:
    """Return the settings of a loader that bear on its speed; None where it has no such setting or does not tell."""

    def ask(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Exception:  # somebody's property, somebody's __len__
            return None

    return {
        "class": type(loader).__name__,
        "dataset": ask(lambda: type(loader.dataset).__name__),
        "sampler": ask(lambda: type(loader.sampler).__name__),
        "batches": ask(lambda: len(loader)),
        **{name: ask(partial(getattr, loader, name)) for name in LOADER_SETTINGS},
    }


def memory_held() -> dict[str, int]:
    """Return what is known of ``rss``, ``allocated`` and ``reserved``, in bytes (columns of the table ``timer``)."""
    held = {"rss": _resident()}
    torch = torch_if_loaded()
    if torch is not None and (device := accelerator(torch)) is not None:
        stats = device.memory_stats()
        held["allocated"] = stats.get("allocated_bytes.all.current")
        held["reserved"] = stats.get("reserved_bytes.all.current")
    return {column: size for column, size in held.items() if size is not None}


def _resident() -> int | None:
    """Return the resident bytes of this process, or None where /proc is not."""
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return None
    try:
        return int(os.read(statm, 64).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    finally:
        os.close(statm)
