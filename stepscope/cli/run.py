"""``stepscope run``: profile an unchanged training script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ..collect import Window
from ..collect.launch import default_out, run_script
from ..ingest.errors import StepscopeError


def _window(context: click.Context, parameter: click.Parameter, text: str | None) -> Window | None:
    """Read ``EVERY[:ACTIVE[:FIRST]]``, ``once`` or ``off``."""
    if text in (None, "once"):
        return Window()
    if text == "off":
        return None
    try:
        period, *rest = (int(part) for part in str(text).split(":"))
        return Window(period=period, **dict(zip(("active", "first"), rest, strict=False)))
    except (ValueError, TypeError) as error:
        raise click.BadParameter(f"{text!r} is not EVERY[:ACTIVE[:FIRST]], 'once' or 'off' ({error}).") from None


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-o", "--out", type=click.Path(file_okay=False), help="Run directory [default: runs/SCRIPT-TIME].")
@click.option(
    "--window",
    callback=_window,
    metavar="EVERY[:ACTIVE[:FIRST]]|once|off",
    help="When torch.profiler records: ACTIVE (3) steps of every EVERY, from FIRST (10) on  [default: once]",
)
@click.option("--keep-raw", is_flag=True, help="Keep the raw Kineto files in RUN/raw.")
@click.option(
    "--snapshots", is_flag=True, help="Record the allocator's history, written to RUN/snapshots when memory runs out."
)
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def command(
    out: str | None, window: Window | None, keep_raw: bool, snapshots: bool, script: str, args: tuple[str, ...]
) -> None:
    """Profile SCRIPT, unchanged.

    Under torchrun all ranks write into the same run: torchrun --nproc-per-node=2 -m stepscope.cli run SCRIPT
    """
    if not os.path.exists(script):
        raise StepscopeError(f"There is no script {script}. Give the path of a Python file.", exit_code=2)
    run = Path(out or default_out(script)).absolute()
    try:
        run_script(script, list(args), run, window, keep_raw, snapshots)
    except BaseException as error:
        _end_as_python_would(error)
    finally:
        if os.environ.get("RANK", "0") == "0":
            click.echo(f"stepscope: collected into {run}. Next: stepscope analyze {run}", err=True)


def _end_as_python_would(error: BaseException) -> None:
    """Keep the command line's own handling of errors away from the script's."""
    if isinstance(error, SystemExit):
        raise error
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith("<frozen runpy"):
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith("<frozen runpy"):
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace or error.__traceback__), trace)
    sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)
