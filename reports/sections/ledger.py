"""Where the step time goes: the ledger over steps and ranks, the device's time, the whole run's step times."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from ...ingest.schema import COMM_SPLIT, LEDGER_CATEGORIES
from .. import figures, palette
from ..blocks import Block, Chart, Column, Figure, Legend, Note, Section, Table
from ..book import Book
from ..headline import mean_ledger

STEPS_DRAWN = 200
RANKS_CHOOSABLE = 64

DEFINITION = (
    "An additive split of a step's wall time: each category takes only time that earlier ones did not, and "
    "the categories sum to the step to the nanosecond."
)


def section(book: Book) -> Section:
    """Return the step-time ledger."""
    return Section(
        "ledger",
        "Step-time ledger",
        "Where did the wall time of a step go?",
        [*_shares(book), *_bars(book), *_device(book), *_whole_run(book)],
    )


def _shares(book: Book) -> list[Block]:
    means = mean_ledger(book)
    if not means.rows:
        return [Note("No ledger: no profiled step was recorded, so the split of its time is unknown.", "unknown")]
    shown = {row["category"] for row in means.rows}
    if shown.intersection(COMM_SPLIT):
        shown.add("exposed_comm")
    absent = [category for category in LEDGER_CATEGORIES if category not in shown]
    blocks: list[Block] = [Legend(means.rows, means.id)]
    if absent:
        names = ", ".join(palette.label(category) for category in absent)
        blocks.append(Note(f"Not recorded in these traces, hence unknown and not zero: {names}.", "unknown"))
    return blocks


def _bars(book: Book) -> list[Block]:
    steps = book.ask("ledger_step_means", f"{DEFINITION} Here the mean over ranks.", "ledger", limit_steps=STEPS_DRAWN)
    if not steps.rows:
        return []
    own = book.ask("ledger_steps", DEFINITION, "ledger", limit_ranks=RANKS_CHOOSABLE, limit_steps=STEPS_DRAWN)
    ranks = book.ask("ledger_ranks", f"{DEFINITION} Here the mean over the judged steps of each rank.", "ledger")
    categories = [c for c in palette.ORDER if any(row["category"] == c for row in ranks.rows)]
    by_rank = defaultdict(list)
    for row in own.rows:
        by_rank[row["rank"]].append(row)
    series = {f"rank {rank}": _stack(rows, "step", "ns", categories) for rank, rows in by_rank.items()}
    if len(series) > 1:
        series = {"mean of all ranks": _stack(steps.rows, "step", "mean_ns", categories), **series}
    open_steps = any(row["complete"] is False for row in own.rows)
    pale = " Pale steps are not complete and count in no average." if open_steps else ""
    over_ranks = _stack(ranks.rows, "rank", "mean_ns", categories)
    blocks: list[Block] = [
        Chart(
            "stack",
            {"categories": _named(categories), "axis": "step", "series": series},
            f"Over the profiled steps.{pale}{_capped(max(map(len, series.values())), STEPS_DRAWN, 'steps')}",
            "Stacked bars: the ledger of each profiled step",
            steps.id if len(by_rank) != 1 else own.id,
        )
    ]
    only = f" (the {RANKS_CHOOSABLE} slowest)" if len(over_ranks) > RANKS_CHOOSABLE else ""
    if len(over_ranks) > 1:
        blocks.append(
            Chart(
                "stack",
                {"categories": _named(categories), "axis": "rank", "series": {"": over_ranks}},
                f"Over ranks, mean of each rank's judged steps. Click a rank to see its steps above{only}.",
                "Stacked bars: the mean ledger of each rank",
                ranks.id,
            )
        )
    return blocks


def _stack(rows: list[dict[str, Any]], key: str, value: str, categories: list[str]) -> list[dict[str, Any]]:
    """Return bars: x, heights in the order of the categories (None: not recorded), whether complete."""
    bars: dict[Any, dict[str, Any]] = {}
    for row in rows:
        bar = bars.setdefault(row[key], {"x": row[key], "v": [None] * len(categories)})
        if row.get("complete") is False:
            bar["open"] = 1
        if row["category"] in categories:
            bar["v"][categories.index(row["category"])] = round(row[value])
    return list(bars.values())


def _named(categories: list[str]) -> list[list[str]]:
    return [[category, palette.label(category)] for category in categories]


def _capped(drawn: int, cap: int, what: str) -> str:
    return f" Only the first {cap} {what} are drawn." if drawn >= cap else ""


def _device(book: Book) -> list[Block]:
    answer = book.ask(
        "device_time",
        "Unions of the device's events over its span: busy is what any event covers, idle the rest.",
        "device-time",
    )
    if not answer.rows:
        return [Note("Device time: no device event was recorded (a CPU-only run has none).", "unknown")]
    columns = [
        Column("rank", "rank", "count"),
        Column("device", "device", "count"),
        Column("policy", "events"),
        Column("busy", "busy", "share", bar=True),
        Column("span_ns", "span", "time"),
        Column("idle_ns", "idle", "time"),
        Column("compute_ns", "compute", "time"),
        Column("comm_ns", "comm.", "time"),
        Column("exposed_comm_ns", "exposed comm.", "time"),
        Column("copy_ns", "copy", "time"),
        Column("exposed_copy_ns", "exposed copy", "time"),
        Column("unclassified_ns", "unclassified", "time"),
    ]
    return [Table("What each device did", columns, answer.rows, answer.id, folded=len(answer.rows) > 8)]


def _whole_run(book: Book) -> list[Block]:
    answer = book.ask(
        "timer_series",
        "Wall time of every step of the run, profiled or not, and the time spent in the loader's next().",
        "always-on-timer",
    )
    if not answer.rows:
        return [
            Note(
                "Step times outside the profiled windows were not recorded: the always-on timer did not run "
                "(stepscope.watch or stepscope run adds it). Whether the window is typical is unknown.",
                "unknown",
            )
        ]
    return [
        Figure(
            figures.step_times(answer.rows),
            "Step wall time over the whole run: median over ranks in a band from the fastest to the slowest; "
            "the wait for the loader, median up to the worst. Marks on top: a profiler window was open.",
            answer.id,
        )
    ]
