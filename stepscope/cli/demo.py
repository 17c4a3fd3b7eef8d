"""``stepscope demo``: a real two-rank training with a planted fault, from loop to page."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import click

from ..ingest.errors import StepscopeError
from ..reports.units import printable
from .opening import opened, tell_sources

SLOW = ["--slow-ms", "4", "--workers", "0"]  # reads each sample slowly, in the training process
HEALTHY = ["--workers", "0"]  # samples are in memory


@click.command(name="demo")
@click.option("--out", default="stepscope-demo", show_default=True, metavar="DIR", help="Where run and report go.")
@click.option("--healthy", is_flag=True, help="Plant nothing: the report must find nothing.")
def command(out: str, healthy: bool) -> None:
    """Train two CPU ranks (about half a minute), profile them, and write the report."""
    folder = Path(out)
    run = folder / "run"
    if (run / "run.json").exists():
        raise StepscopeError(f"{run} already holds a run. Remove it, or name another directory with --out.")
    planted = "nothing is planted" if healthy else "the dataset is made slow: 4 ms a sample"
    click.echo(f"Training two gloo ranks on the CPU; {planted}.")
    _train(run, HEALTHY if healthy else SLOW)
    with opened([str(run)]) as finished:
        tell_sources(finished)
        click.echo(printable(finished.verdict()))
        page = finished.report(folder / "report.html")
    click.echo(f"{page}")


def _train(run: Path, options: list[str]) -> None:
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        raise StepscopeError(
            "The demo trains with torch, which is not installed: pip install 'stepscope[collect]'."
        ) from None
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    with as_file(files("stepscope.examples") / "train_ddp.py") as script:
        command = [*launcher, str(script), "--out", str(run), *options]
        done = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    if done.returncode:
        raise StepscopeError(f"The demo's training failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    click.echo(done.stdout.strip())
