"""What the verbs share: a run from whatever the user named, progress, and what is said about damage."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from ..api import Run, open_run
from ..ingest.errors import StepscopeError
from ..ingest.rows import first_row
from ..pipeline import Ingested, ingest, pending_traces
from ..reports.units import printable

SHOWN = 20  # damaged sources that are named on the terminal; all of them are in the tables `sources` and `quality`


@contextmanager
def opened(targets: Sequence[str], *, generic: bool = False, strict: bool = False) -> Iterator[Run]:
    """Open a run directory, or ingest traces into a temporary run and open that.

    Raises:
        StepscopeError: Nothing usable is there, or `strict` and something is damaged.
    """
    if len(targets) == 1 and is_run(targets[0]):
        run_path = targets[0]
        if "://" not in run_path and (pending := pending_traces(run_path)):
            with progress() as tick:
                ingest(pending, run_path, progress=tick)
        with open_run(run_path) as run:
            refuse_damage(run, strict)
            yield run
        return
    if named := next(filter(is_run, targets), None):
        raise StepscopeError(f"{named} is a run, which is read on its own. Name it alone, or only traces.", exit_code=2)
    with tempfile.TemporaryDirectory(prefix="stepscope-") as temporary:
        with progress() as tick:
            done = ingest(targets, Path(temporary) / "run", generic=generic, progress=tick)
        require_usable(done)
        with open_run(done.run) as run:
            refuse_damage(run, strict)
            yield run


def is_run(target: str) -> bool:
    """Whether a target is a run directory rather than traces."""
    import fsspec

    try:
        fs, path = fsspec.core.url_to_fs(target)
        return bool(fs.exists(path.rstrip("/") + "/run.json"))
    except (OSError, ValueError, ImportError):
        return False


@contextmanager
def progress() -> Iterator[Callable[[int, int], None] | None]:
    """Yield a progress callback that draws a bar on a terminal, None in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading traces", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def require_usable(done: Ingested) -> None:
    """Raise when not one source of an ingestion can be used."""
    with open_run(done.run) as run:
        row = first_row(
            run.con.sql(
                "select count(*) filter (verdict <> 'quarantined'), count(*), min(source), min_by(reason, source) from sources"
            )
        )
    usable, total, first, reason = row or (0, 0, None, None)
    if usable:
        return
    if not total:
        raise StepscopeError(
            "No trace was found there: no *.json or *.json.gz file holds trace events. Name trace files."
        )
    others = f", nor of {total - 1} more" if total > 1 else ""
    raise StepscopeError(
        f"No event of {first} can be used{others}: it {reason}. Name traces that torch.profiler has exported."
    )


def refuse_damage(run: Run, strict: bool) -> None:
    """Raise under `--strict` when any source is not whole."""
    if not strict:
        return
    if run.damaged:
        raise StepscopeError(f"--strict: {run.damaged[0]}")
    damaged = first_row(
        run.con.sql("select count(*), min(source), min_by(reason, source) from sources where verdict <> 'ok'")
    )
    if damaged and damaged[0]:
        raise StepscopeError(f"--strict: {damaged[0]} sources are not whole, the first {damaged[1]}: {damaged[2]}")


def tell_sources(run: Run, echo: Callable[[str], None] = click.echo) -> None:
    """Print coverage first, then what is wrong with which source."""
    echo(run.coverage())
    for sentence in run.damaged[:SHOWN]:
        echo(printable(f"  damaged     {sentence}"))
    rows = run.con.sql(
        "select verdict, source, reason from sources where reason <> '' order by verdict = 'repaired', source"
    ).fetchall()
    for verdict, source, reason in rows[:SHOWN]:
        echo(printable(f"  {verdict:<11} {source}: {reason}"))
    if len(rows) > SHOWN:
        echo(f"  and {len(rows) - SHOWN} more: stepscope sql {run.path} \"from sources where reason <> ''\"")


def strict_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--strict``."""
    return click.option("--strict", is_flag=True, help="Exit with 1 when any source is damaged.")(command)


def generic_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--generic``."""
    return click.option("--generic", is_flag=True, help="Accept Chrome traces that are not Kineto's.")(command)
