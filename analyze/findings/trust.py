"""too_short, cannot_tell, nothing_wrong: what the run can and cannot say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import Finding, evidence, ms
from .shares import has_device_work, mean_step_ns

if TYPE_CHECKING:
    from ..run import Run

LEAST_STEPS = 3

STEPS_SQL = """
    select rank, count(*) as steps, count(*) filter (complete) as complete, count(*) filter (source = 'window') as without_marker,
        count(*) filter (source = 'timer') as timed
    from steps group by rank order by complete desc, rank
"""
WORK_SQL = """
    select category, sum(l.ns) as ns, sum(l.ns) / (select sum(dur_ns) from judged) as share
    from judged j join ledger l using (rank, step) group by category order by ns desc
"""


def find(run: Run, found: list[Finding]) -> Iterator[Finding]:
    """Say what limits the other findings; nothing_wrong only when enough was recorded to say so."""
    best = first_row(run.con.sql(STEPS_SQL))
    sql, rows = evidence(run, STEPS_SQL)
    if best is None:
        yield _cannot_tell(
            "no step was recorded",
            "Ingest a trace with events, or record one with stepscope.watch().",
            sql,
            rows,
        )
        return
    _, _, complete, without_marker, timed = best
    profiled = complete - timed
    if not profiled and not timed:
        why = "no step is complete"
        yield _cannot_tell(
            why, "Record more steps: stepscope.every(200, active=3), or torch.profiler's active=3.", sql, rows
        )
        return
    if without_marker or (profiled < LEAST_STEPS and timed < LEAST_STEPS):
        count = (
            "has no step markers" if without_marker else f"holds {profiled} complete step{'s' if profiled != 1 else ''}"
        )
        yield Finding(
            "too_short",
            f"Too short to judge with confidence: the trace {count}, and an average wants {LEAST_STEPS} at least.",
            "Record a window of three steps or more, with prof.step() once a step.",
            sql,
            rows,
            confidence="high",
            step_scope="whole run",
        )
        return
    if found:
        return
    yield _nothing_wrong(run)


def _cannot_tell(why: str, advice: str, sql: str, rows: str) -> Finding:
    return Finding(
        "cannot_tell",
        f"Cannot tell where the time goes, because {why}.",
        advice,
        sql,
        rows,
        confidence="high",
        step_scope="whole run",
    )


def _nothing_wrong(run: Run) -> Finding:
    step = mean_step_ns(run)
    sql, rows = evidence(run, WORK_SQL)
    if step is None:
        sql, rows = evidence(run, STEPS_SQL)
        sentence = "Nothing wrong in the always-on rows: no loader wait above 1 % of the step. No window shows what is inside a step."
    else:
        where = "the device's" if has_device_work(run) else "the operators'"
        sentence = f"Nothing wrong: the mean step of {ms(step)} is {where} own work; no cause that Stepscope knows is worth a finding."
    return Finding(
        "nothing_wrong",
        sentence,
        "A faster step needs faster compute: kernels, precision, batch shape. See the kernels and operators in the report.",
        sql,
        rows,
        confidence="high",
        step_scope="whole run",
    )
