"""Runs an unchanged script as ``python script.py`` would, and collects from it."""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

from .hooks import install
from .loop import DEFAULT
from .session import Session
from .windows import Window


def run_script(
    script: str,
    arguments: list[str],
    out: str | os.PathLike[str],
    window: Window | None = DEFAULT,
    keep_raw: bool = False,
    snapshots: Window | bool = False,
) -> None:
    """Run ``script`` as ``__main__`` and collect its steps; what it raises passes.

    A step goes from one step of the optimizer to the next, or from batch to batch in a script without one.

    Args:
        script: Path of the script.
        arguments: Its command line.
        out: The run directory.
        window: When torch.profiler records, None for never.
        keep_raw: Keep the raw Kineto files.
        snapshots: Record the history of an accelerator's allocator; a window tells when it is written, besides at an OOM.
    """
    session = Session(out, window, keep_raw, snapshots)
    install(session)
    sys.argv[:] = [script, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
    except Exception as error:
        session.snapshots.raised(error)
        raise
    finally:
        session.close()


def default_out(script: str) -> Path:
    """Return where a run of ``script`` goes by default; all ranks of a job come to the same answer."""
    get = os.environ.get
    if job := get("SLURM_JOB_ID"):
        name = f"slurm-{job}.{get('SLURM_STEP_ID', '0')}"
    elif get("TORCHELASTIC_RUN_ID") and get("GROUP_WORLD_SIZE") != "1":
        name = f"{get('TORCHELASTIC_RUN_ID')}-{get('MASTER_PORT')}"
    else:
        launched = _start_of(os.getppid()) if "RANK" in os.environ else None
        name = time.strftime("%Y%m%d-%H%M%S", time.localtime(launched))
    return Path("runs") / f"{Path(script).stem}-{name}"


def _start_of(process: int) -> float | None:
    """Return when a process started, in seconds since the epoch, or None where /proc does not tell."""
    try:
        ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
        boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
    return int(boot.split()[1]) + ticks // os.sysconf("SC_CLK_TCK")
