"""Steps of one capture: where each begins and ends, and whether it may enter an average.

A step starts at the later of its own marker's start and the previous step's end, and ends at the later of its marker's
end and the end of the last device event launched inside the marker. Without markers there is one step, the window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa

from .rows import first_row
from .schema import STEPS

# A first collective this many times longer than its like in every later step waited for another rank's profiler.
START_SKEW = 10
START_SKEW_NS = 10_000_000
_BEFORE = np.iinfo(np.int64).min  # before every marker


@dataclass(frozen=True)
class Step:
    """One step of a capture. Stamps are the file's own until ``table`` adds the base."""

    step: int
    label: str | None
    marker_start_ns: int
    marker_end_ns: int
    start_ns: int
    end_ns: int
    source: str
    reason: str | None = None  # why it is not complete


def find_markers(con: duckdb.DuckDBPyConnection, finished: int | None = None) -> list[Step]:
    """Return the step markers of the thread that has most of them, as steps that end with their markers.

    Args:
        con: A connection with ``typed``.
        finished: Only so many of them are steps; a later one was broken off.
    """
    rows = con.execute(
        """
        with marks as (select * from typed where kind = 'step' and start_ns is not null and raw_dur_ns >= 0)
        select name, start_ns, start_ns + raw_dur_ns from marks
        where thread = (select thread from marks group by thread order by count(*) desc, thread limit 1)
        order by start_ns, event_id
        """
    ).fetchall()
    return [Step(i, label, start, end, start, end, "profiler") for i, (label, start, end) in enumerate(rows[:finished])]


def register_steps(con: duckdb.DuckDBPyConnection, steps: list[Step]) -> None:
    """Create the SQL function ``step_of(ns)``: the step whose marker holds a moment, NULL between markers.

    Everything belongs to a window, whenever it is.
    """
    if not steps or steps[0].source == "window":
        con.execute(f"create macro step_of(ns) as {steps[0].step if steps else 'null'}::bigint")
        return
    starts = np.array([one.marker_start_ns for one in steps], np.int64)
    ends = np.array([one.marker_end_ns for one in steps], np.int64)

    def step_of(moments: pa.Array) -> pa.Array:
        at = moments.fill_null(_BEFORE).to_numpy(zero_copy_only=False)
        step = np.searchsorted(starts, at, side="right") - 1
        return pa.array(step, pa.int64(), mask=(step < 0) | (at >= ends[step]))

    con.create_function("step_of", step_of, ["BIGINT"], "BIGINT", type="arrow", null_handling="special")  # type: ignore[call-overload]


def find_window(con: duckdb.DuckDBPyConnection) -> list[Step]:
    """Return the whole window as the only step of a capture without markers; nothing when nothing has a time."""
    start, end = first_row(
        con.execute(
            """
            select min(first), max(last) from (
                select start_ns as first, start_ns + raw_dur_ns as last from typed
                where kind not in ('kernel', 'copy', 'memset', 'sync', 'device_annotation', 'other', 'overhead')
                  and spans and raw_dur_ns >= 0
                union all
                select start_ns, start_ns + dur_ns from physics where not untimed and not foreign_clock
            )
            """
        )
    ) or (None, None)
    if start is None or end is None:
        return []
    return [Step(0, None, start, end, start, end, "window")]


def close_steps(con: duckdb.DuckDBPyConnection, markers: list[Step], base_ns: int) -> list[Step]:
    """Return the steps with their true ends, none overlapping, each with the reason why it is incomplete if it is.

    Args:
        con: A connection with ``events``, on the epoch's clock.
        markers: What ``find_markers`` found, on the file's own clock.
        base_ns: The difference.
    """
    last_work = dict(
        con.execute(
            """
            select step, max(start_ns + dur_ns) - $base from events
            where kind in ('kernel', 'copy', 'memset') and step is not null
              and not coalesce(list_contains(flags, 'foreign_clock'), false)
            group by step
            """,
            {"base": base_ns},
        ).fetchall()
    )
    steps: list[Step] = []
    previous_end = markers[0].start_ns
    for marker in markers:
        start = max(marker.marker_start_ns, previous_end)
        end = max(marker.marker_end_ns, last_work.get(marker.step) or start, start)
        steps.append(replace(marker, start_ns=start, end_ns=end))
        previous_end = end
    reasons = _profiler_inside(con, steps) | _trailing(con, steps) | _start_skew(con, steps) | _empty(steps)
    return [replace(one, reason=reasons.get(one.step)) for one in steps]


def _empty(steps: list[Step]) -> dict[int, str]:
    """Return the steps without any time of their own: a marker of no length, or inside of another step."""
    return {one.step: "has no time of its own" for one in steps if one.end_ns == one.start_ns}


def _profiler_inside(con: duckdb.DuckDBPyConnection, steps: list[Step]) -> dict[int, str]:
    begin, end = first_row(
        con.execute(
            """
            select min(start_ns) filter (name like 'Iteration Start%'), max(start_ns) filter (name = 'Record Window End')
            from typed where kind = 'other' and (name = 'Record Window End' or name like 'Iteration Start%')
            """
        )
    ) or (None, None)
    reasons = {}
    for one in steps:
        if begin is not None and one.start_ns < begin < one.end_ns:
            reasons[one.step] = "holds the profiler's own start"
        if end is not None and one.start_ns < end < one.end_ns:
            reasons[one.step] = "holds the profiler's own stop"
    return reasons


def _trailing(con: duckdb.DuckDBPyConnection, steps: list[Step]) -> dict[int, str]:
    """Return the last step when it has no work in a capture that has some: device work, else operators."""
    work = dict(
        con.execute(
            """
            select step, count(*) from events
            where step is not null and case when exists (from physics) then kind in ('kernel', 'copy', 'memset')
                else kind = 'operator' end
            group by step
            """
        ).fetchall()
    )
    return (
        {steps[-1].step: "trailing step without work"}
        if work and len(steps) > 1 and not work.get(steps[-1].step)
        else {}
    )


def _start_skew(con: duckdb.DuckDBPyConnection, steps: list[Step]) -> dict[int, str]:
    """Return the first step when its collectives waited for other ranks' profilers to start."""
    longest = dict(
        con.execute(
            "select step, max(dur_ns) from events where class = 'communication' and step is not null group by step"
        ).fetchall()
    )
    later = [longest[one.step] for one in steps[1:] if longest.get(one.step)]
    first = longest.get(steps[0].step)
    if first and later and first >= START_SKEW_NS and first > START_SKEW * max(later):
        return {steps[0].step: "holds a collective that waited for other ranks' profilers to start"}
    return {}


def step_table(steps: list[Step], capture_id: int, base_ns: int) -> pa.Table:
    """Return the capture's rows of ``steps``."""
    rows = [
        {
            "capture_id": capture_id,
            "step": one.step,
            "label": one.label,
            "start_ns": one.start_ns + base_ns,
            "end_ns": one.end_ns + base_ns,
            "dur_ns": one.end_ns - one.start_ns,
            "source": one.source,
            "complete": one.reason is None,
            "reason": one.reason,
        }
        for one in steps
    ]
    return pa.Table.from_pylist(rows, schema=STEPS)
