"""``stepscope report``: one self-contained HTML page."""

from __future__ import annotations

import click

from ..reports.units import printable
from .opening import generic_option, opened, strict_option, tell_sources


@click.command(name="report")
@click.argument("targets", nargs=-1, required=True, metavar="RUN|TRACE...")
@click.option("-o", "--out", default="report.html", show_default=True, metavar="FILE", help="Where the page goes.")
@generic_option
@strict_option
def command(targets: tuple[str, ...], out: str, generic: bool, strict: bool) -> None:
    """Write the report of a run, or of traces, as one HTML page."""
    with opened(targets, generic=generic, strict=strict) as run:
        tell_sources(run)
        click.echo(printable(run.verdict()))
        click.echo(str(run.report(out)))
