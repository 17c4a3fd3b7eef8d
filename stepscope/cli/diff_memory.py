"""``stepscope diff-memory``: what a memory peak has more of than another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from .opening import opened

if TYPE_CHECKING:
    from ..analyze.memory_diff import MemoryDiff

SHOWN = 20  # rows of a table


@click.command(name="diff-memory")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--by", default="category", type=click.Choice(["category", "place", "stack"]), show_default=True)
@click.option("--rank", type=int, help="Whose memory [default: the rank with the highest peak].")
@click.option("--json", "as_json", is_flag=True, help="Print versioned JSON instead: all parts, sizes in bytes.")
def command(before: str, after: str, by: str, rank: int | None, as_json: bool) -> None:
    """Say what the memory peak of AFTER has more of than BEFORE's. Each is a run, a trace or a memory snapshot.

    The parts sum to the difference of the peaks.
    """
    from ..analyze.memory_diff import compare_memory

    with opened([before]) as first, opened([after]) as second:
        diff = compare_memory(first, second, rank)
    if as_json:
        click.echo(json.dumps(_envelope(diff), indent=1))
    else:
        _print(diff, by)


def _envelope(diff: MemoryDiff) -> dict[str, object]:
    from ..analyze.memory_diff import WAYS

    return {
        "schema": "stepscope/memory-diff/1",
        "before": diff.before,
        "after": diff.after,
        "difference": diff.difference,
        "by": {
            way: [
                {**dict(zip(columns, one.what, strict=True)), "before": one.before, "after": one.after}
                for one in diff.by(way)
            ]
            for way, columns in WAYS.items()
        },
    }


def _print(diff: MemoryDiff, by: str) -> None:
    from rich.console import Console
    from rich.table import Table

    from ..analyze.memory_diff import WAYS
    from ..reports.units import printable, size

    sides = ", ".join(
        f"{size(row['peak'])} {word} (rank {row['rank']})"
        for row, word in ((diff.before, "before"), (diff.after, "after"))
    )
    click.echo(f"Peak on {diff.after['device']}: {sides}; {_signed(diff.difference)}.")
    changes = diff.by(by)
    if not changes:
        click.echo("Nothing of what was alive at the peaks differs.")
        return
    table = Table(*WAYS[by], box=None, header_style="bold")
    for heading in ("before", "after", "change"):
        table.add_column(heading, justify="right")
    shown, rest = changes[:SHOWN], changes[SHOWN:]
    for one in shown:
        what = (printable((part or "not told").replace("\n", " < ")) for part in one.what)
        table.add_row(*what, size(one.before), size(one.after), _signed(one.difference))
    if rest:
        sums = [sum(getattr(one, side) for one in rest) for side in ("before", "after", "difference")]
        blank = [""] * (len(WAYS[by]) - 1)
        table.add_row(f"{len(rest)} more", *blank, size(sums[0]), size(sums[1]), _signed(sums[2]))
    Console(markup=False).print(table)


def _signed(n: int) -> str:
    from ..reports.units import size

    return f"{'+' if n > 0 else ''}{size(n)}"
