"""``stepscope analyze``: the verdict and the findings in the terminal."""

from __future__ import annotations

import json

import click

from .opening import generic_option, opened, strict_option, tell_sources


@click.command(name="analyze")
@click.argument("targets", nargs=-1, required=True, metavar="RUN|TRACE...")
@click.option("--json", "as_json", is_flag=True, help="Print the versioned JSON envelope instead.")
@generic_option
@strict_option
def command(targets: tuple[str, ...], as_json: bool, generic: bool, strict: bool) -> None:
    """Say where the step time went, and what would give it back."""
    with opened(targets, generic=generic, strict=strict) as run:
        if as_json:
            from ..reports.json import envelope

            click.echo(json.dumps(envelope(run), indent=1))
            return
        from rich.console import Console

        from ..reports.terminal import print_report

        tell_sources(run)
        print_report(run, Console())
