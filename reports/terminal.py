"""The verdict in the terminal: what the page's first screen says, in text.

Names from traces are untrusted: they go through ``units.printable`` and into ``Text``, never into markup.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from ..analyze.run import Run
from . import palette, units
from .book import Book
from .headline import findings, headline, mean_ledger, records

_BAR = 60


def print_report(run: Run, console: Console) -> None:
    """Print verdict, ledger and findings of ``run`` on ``console``; the verbs print coverage before."""
    book = Book(run)
    console.print(Text(units.printable(run.verdict()), style="bold"))
    console.print(Text(_steps(book), style="dim"))
    _ledger(book, console)
    for number, finding in enumerate(findings(run), 1):
        said = finding["sentence"] == run.verdict()
        _finding(number, finding["kind"].replace("_", " ") if said else finding["sentence"], finding, console)
    _doubts(run, console)


def _steps(book: Book) -> str:
    row = headline(book).one
    if not row["steps_profiled"]:
        return "No step was profiled."
    return (
        f"Mean step {units.duration(row['mean_step_ns'])} over {row['steps_judged']} of "
        f"{row['steps_profiled']} profiled steps."
    )


def _ledger(book: Book, console: Console) -> None:
    rows = [row for row in mean_ledger(book).rows if row["total_ns"]]
    if not rows:
        return
    bar = Text("\n")
    end, filled = 0.0, 0
    for row in rows:
        end += row["share"] * _BAR
        bar.append("█" * (round(end) - filled), style=_colour(row["category"]))
        filled = round(end)
    console.print(bar)
    for row in rows:
        line = Text("■ ", style=_colour(row["category"]))
        line.append(f"{palette.label(row['category']):24}", style="default")
        line.append(f"{units.duration(row['mean_ns']):>10}{units.share(row['share']):>9}", style="default")
        console.print(line)


def _colour(category: str) -> str:
    return palette.TONES[category].dark if category in palette.TONES else "default"


def _finding(number: int, title: str, finding: dict[str, Any], console: Console) -> None:
    console.print()
    console.print(Text(f"{number}. {units.printable(title)}", style="bold"))
    lines = []
    if finding["lost_ns_per_step"]:
        won = f"Would win up to {units.duration(finding['lost_ns_per_step'])} a step"
        part = "" if finding["share"] is None else f", {units.share(finding['share'])} of it"
        lines.append(f"{won}{part}.{_sure(finding['confidence'])}")
    if finding["advice"]:
        lines.append(units.printable(finding["advice"]))
    if lines:
        console.print(Padding(Text("\n".join(lines)), (0, 0, 0, 3), expand=False))


def _sure(confidence: Any) -> str:
    return "" if confidence is None else f" Confidence: {units.confidence(confidence)}."


def _doubts(run: Run, console: Console) -> None:
    broken = [row for row in records(run.invariants()) if row["holds"] is False]
    for row in broken:
        console.print(Text(f"BROKEN: {row['name']}: {units.printable(row['sentence'])}", style="bold red"))
    noticed = run.sql("select count(*) from quality").fetchall()[0][0]
    if noticed:
        remarks = "1 remark" if noticed == 1 else f"{noticed} remarks"
        console.print(Text(f'\n{remarks} on the traces: stepscope sql RUN "from quality"', style="dim"))
