"""Who waits for whom: the blame matrix, waiting by rank and step, one collective's arrivals, the speed of the links."""

from __future__ import annotations

from .. import figures
from ..blocks import Block, Column, Figure, Note, Section, Table
from ..book import Book

STEPS_DRAWN = 400
_MEANING = (
    "A collective begins to move data when its last member has arrived; until then the others wait. All waiting in "
    "judged steps is charged to the last arriver."
)


def section(book: Book) -> Section:
    """Return who keeps the ranks waiting, and how fast they exchange once all are there."""
    causes = book.ask("blame_causes", _MEANING, "waiting")
    blocks = [*_blame(book), *_arrivals(book)] if causes.rows else [_unknown(book)]
    return Section(
        "waiting",
        "Waiting",
        "Who waits for whom, because of what, and how fast are the links?",
        [*blocks, *_speed(book), *_buckets(book), *_balance(book)],
    )


def _unknown(book: Book) -> Note:
    told = book.ask("wait_heat", _MEANING, "waiting", limit_steps=STEPS_DRAWN)
    if told.rows:
        return Note("No rank waited for another in the judged steps.")
    return Note(
        "Waiting and transfer are not told apart: that takes the same collectives on all ranks of a group, on clocks that can be "
        "compared. Their shares are unknown, not zero.",
        "unknown",
    )


def _blame(book: Book) -> list[Block]:
    causes = book.ask("blame_causes", _MEANING, "waiting")
    blocks: list[Block] = [
        Table(
            "Who keeps the others waiting, and what it does more of than the others meanwhile",
            [
                Column("late_rank", "last to arrive", "count", unknown="clocks cannot tell"),
                Column("cause", "cause", unknown="none stands out"),
                Column("steps", "steps", "count"),
                Column("wait_ns", "others wait, sum", "time", bar=True),
                Column("exposed_ns", "of it exposed, at most", "time"),
                Column("share", "of all waiting", "share"),
            ],
            causes.rows,
            causes.id,
            folded=len(causes.rows) > 8,
        )
    ]
    matrix = book.ask("blame_matrix", f"{_MEANING} Here by who waits.", "waiting")
    if matrix.rows:
        svg = figures.heat(matrix.rows, "rank", "late_rank", "wait_ns", ("rank that waits", "rank that is late"))
        blocks.append(Figure(svg, "The blame matrix: which rank waits for which, in rank time.", matrix.id))
    heat = book.ask(
        "wait_heat", "Time in which a rank waits in collectives for others.", "waiting", limit_steps=STEPS_DRAWN
    )
    if heat.rows:
        svg = figures.heat(heat.rows, "step", "rank", "wait_ns", ("step", "rank"))
        blocks.append(Figure(svg, "Waiting by rank and step. A pale row is the rank the others wait for.", heat.id))
    return blocks


def _arrivals(book: Book) -> list[Block]:
    answer = book.ask("arrivals", "Arrivals of one collective, on the clock of the lowest rank.", "waiting")
    if not answer.rows:
        return []
    svg = figures.arrivals(answer.rows)
    return [
        Figure(svg, "When each rank arrived at it, how long it waited, and how long the data moved.", answer.id),
        Table(
            f"The collective with the most waiting: {answer.rows[0]['op']} in step {answer.rows[0]['step']}, in order of arrival",
            [
                Column("rank", "rank", "count"),
                Column("after_ns", "arrives after the first", "time", bar=True),
                Column("clock_error_ns", "give or take", "time"),
                Column("wait_ns", "waits", "time"),
                Column("wait_least_ns", "at least", "time"),
                Column("wait_most_ns", "at most", "time"),
                Column("transfer_ns", "transfer", "time"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        ),
    ]


def _speed(book: Book) -> list[Block]:
    answer = book.ask(
        "link_speed", "Latency and bandwidth fitted over sizes, once all members have arrived.", "waiting"
    )
    if not answer.rows:
        return []
    return [
        Table(
            "How fast collectives are once all ranks have arrived",
            [
                Column("pg", "group", "name", unknown="not recorded"),
                Column("role", "role", unknown="not shown"),
                Column("op", "operation", "name"),
                Column("group_size", "ranks", "count"),
                Column("calls", "calls", "count"),
                Column("sizes", "sizes", "count"),
                Column("smallest", "smallest", "size"),
                Column("largest", "largest", "size"),
                Column("latency_ns", "latency", "time", unknown="takes 3 sizes"),
                Column("bandwidth", "bandwidth (bytes of the buffer)", "rate", unknown="takes 3 sizes"),
                Column("link_bandwidth", "bandwidth (bytes each rank sends)", "rate", unknown="takes 3 sizes"),
                Column("residual", "largest residual", "share", unknown=""),
            ],
            answer.rows,
            answer.id,
        ),
        *_sizes(book),
    ]


def _sizes(book: Book) -> list[Block]:
    answer = book.ask("link_points", "Bandwidth of the buffer against its size; the line is the fit.", "waiting")
    if len({row["bytes"] for row in answer.rows}) < 2:
        return []
    caption = "Bandwidth of the buffer against its size, once all ranks have arrived, of those called most; lines are the fit."
    return [Figure(figures.bandwidth(answer.rows), caption, answer.id)]


def _buckets(book: Book) -> list[Block]:
    answer = book.ask("buckets", "Reductions in the order of the step, means over ranks and judged steps.", "waiting")
    if len(answer.rows) < 2:
        return []
    return [
        Table(
            "Reductions in the order of the step: what is exposed at the end of backward",
            [
                Column("place", "place", "count"),
                Column("op", "operation", "name"),
                Column("bytes", "size", "size", unknown="differ"),
                Column("calls", "calls", "count"),
                Column("begins_ns", "begins", "time"),
                Column("ends_ns", "ends", "time"),
                Column("exposed_ns", "exposed", "time", bar=True),
                Column("wait_ns", "waits for ranks", "time"),
            ],
            answer.rows,
            answer.id,
            folded=len(answer.rows) > 8,
        )
    ]


def _balance(book: Book) -> list[Block]:
    answer = book.ask("all_to_all_balance", "The most that a rank sends in an all-to-all against the mean.", "waiting")
    if not answer.rows:
        return []
    return [
        Table(
            "How evenly all-to-alls are filled",
            [
                Column("pg", "group", "name", unknown="not recorded"),
                Column("rank", "fullest rank", "count"),
                Column("most_times", "how often", "count"),
                Column("calls", "calls", "count"),
                Column("mean_bytes", "mean of a rank", "size"),
                Column("imbalance", "fullest, of the mean (median)", "share"),
                Column("worst", "at worst", "share"),
            ],
            answer.rows,
            answer.id,
        )
    ]
