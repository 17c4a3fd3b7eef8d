"""``stepscope ingest``: files, directories, globs and URIs into a run."""

from __future__ import annotations

import click

from ..api import open_run
from ..pipeline import ingest
from .opening import generic_option, progress, refuse_damage, require_usable, strict_option, tell_sources


@click.command(name="ingest")
@click.argument("traces", nargs=-1, required=True)
@click.option("-o", "--out", required=True, metavar="RUN", help="The run directory; it is made or added to.")
@generic_option
@strict_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
def command(traces: tuple[str, ...], out: str, generic: bool, strict: bool, quiet: bool) -> None:
    """Turn TRACES (files, directories, globs, URIs) into the run RUN, or add them to it."""
    with progress() as tick:
        done = ingest(traces, out, generic=generic, progress=None if quiet else tick)
    require_usable(done)
    with open_run(done.run) as run:
        if not quiet:
            tell_sources(run)
            events = sum(record["events"] or 0 for record in done.records)
            unchanged = f"; {done.unchanged} unchanged" if done.unchanged else ""
            click.echo(f"{len(done.records)} sources, {events:,} events -> {done.run}{unchanged}")
        refuse_damage(run, strict)
