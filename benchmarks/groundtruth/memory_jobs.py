"""The training jobs of ``memory.py``: small, real, each in processes of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import stepscope

MiB = 2**20
LEAK = 2 * MiB  # bytes kept in every step
STEPS = 250
STEP_S = 0.02  # long enough for memory to be read often
WIDTHS = (256, 512, 64)
BATCH = 512
SHM_MIB, SHM_BATCH = 70, 2 * MiB  # a /dev/shm of our own, and a batch in it


@dataclass(frozen=True)
class Job:
    """What is trained and what is done wrong.

    Attributes:
        device: ``cpu`` or ``cuda``.
        optimizer: ``sgd``, ``momentum`` or ``adamw``.
        steps: How many, as fast as may be; ``STEPS`` of them take ``STEP_S`` each.
        fault: ``leak``, ``activations`` (losses kept with their graphs) or ''.
        window: When torch.profiler records.
        ranks: More than one train with DDP.
        views: Whether DDP's gradients are views of its buckets.
    """

    device: str
    optimizer: str = "sgd"
    steps: int = STEPS
    fault: str = ""
    window: Any = None
    ranks: int = 1
    views: bool = False


def train(job: Job) -> stepscope.Run:
    """Train in processes of their own and return what was collected."""
    out = Path(tempfile.mkdtemp(prefix="stepscope-truth-"))
    os.environ["MALLOC_MMAP_THRESHOLD_"] = (
        "65536"  # else glibc's heap keeps holes, and is resident beyond what tensors hold
    )
    jobs = [get_context("spawn").Process(target=_train, args=(str(out), job, rank)) for rank in range(job.ranks)]
    for one in jobs:
        one.start()
    for one in jobs:
        one.join()
    if any(one.exitcode for one in jobs):
        raise RuntimeError(f"{job} ended with {[one.exitcode for one in jobs]}")
    return stepscope.open_run(out / "run")


def _train(out: str, job: Job, rank: int) -> None:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    inner, hidden, outer = WIDTHS
    model = torch.nn.Sequential(torch.nn.Linear(inner, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, outer))
    model = model.to(job.device)
    if job.ranks > 1:
        from torch.nn.parallel import DistributedDataParallel

        store = torch.distributed.FileStore(f"{out}/store", job.ranks)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=job.ranks)
        model = DistributedDataParallel(model, gradient_as_bucket_view=job.views)
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    }[job.optimizer]
    optim = make(model.parameters())
    kept: list[Any] = []
    with stepscope.profile(f"{out}/run", window=job.window) as prof:
        prof.watch_model(model)
        for _ in range(job.steps):
            began = time.perf_counter()
            loss = model(torch.randn(BATCH, inner, device=job.device)).square().mean()
            loss.backward(retain_graph=job.fault == "activations")
            optim.step()
            optim.zero_grad()
            if job.fault == "leak":
                kept.append(torch.ones(LEAK, dtype=torch.uint8, device=job.device))
            elif job.fault == "activations":
                kept.append(loss)  # with its graph
            time.sleep(max(0.0, STEP_S - time.perf_counter() + began) if job.steps == STEPS else 0)
            prof.step()
    if job.ranks > 1:
        torch.distributed.destroy_process_group()


def load(prefetch: int) -> stepscope.Run | None:
    """Load batches by two workers through a /dev/shm of SHM_MIB; None where this process may not mount one."""
    out = Path(tempfile.mkdtemp(prefix="stepscope-truth-")) / "run"
    job = f"from {__name__} import _load; _load({str(out)!r}, {prefetch})"
    shell = f"mount -t tmpfs -o size={SHM_MIB}m tmpfs /dev/shm && exec {sys.executable} -c {job!r}"
    try:
        subprocess.run(["unshare", "--mount", "sh", "-c", shell], check=True, env=dict(os.environ))
    except (OSError, subprocess.CalledProcessError):
        return None
    return stepscope.open_run(out)


def _load(out: str, prefetch: int) -> None:
    import torch
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        range(400),
        batch_size=1,
        num_workers=2,
        prefetch_factor=prefetch,
        collate_fn=_batch,
        multiprocessing_context="fork",
    )
    torch.set_num_threads(1)
    for _ in stepscope.watch(loader, out, window=None):
        time.sleep(STEP_S)  # slower than the workers: their queues are full


def _batch(_: Any) -> Any:
    import torch

    return torch.zeros(SHM_BATCH // 4)
