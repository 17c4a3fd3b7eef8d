"""``stepscope hang``: which ranks hang a job, from its flight-recorder dumps."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from ..ingest.errors import StepscopeError


@click.command(name="hang")
@click.argument("dumps", nargs=-1, required=True, metavar="DUMP...")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as versioned JSON instead.")
def command(dumps: tuple[str, ...], as_json: bool) -> None:
    """Say which ranks hang a job. DUMP: flight-recorder files (pickle or JSON), one a rank, or directories of them."""
    from ..analyze.hang import judge
    from ..ingest.flight_recorder import read_dumps

    read, problems = read_dumps(dumps)
    for sentence in problems:
        click.echo(f"stepscope: {sentence}", err=True)
    if not read:
        raise StepscopeError(
            f"No flight-recorder dump in {', '.join(dumps)}; set TORCH_NCCL_DUMP_ON_TIMEOUT=1 to get them."
        )
    verdict = judge(read)
    if as_json:
        told = {"schema": "stepscope/hang/1", "dumps": len(read), **asdict(verdict), "problems": problems}
        click.echo(json.dumps(told, indent=1))
        return
    click.echo(verdict.sentence)
    for line in verdict.evidence:
        click.echo(f"  {line}")
    absent = f"; none of rank {', '.join(map(str, verdict.missing_dumps))}" if verdict.missing_dumps else ""
    click.echo(f"({len(read)} dumps read{absent})")
