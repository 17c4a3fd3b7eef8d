"""loader_bound: the step waits for data while nothing else is at work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...ingest.rows import first_row
from .finding import LEAST_SHARE, Finding, evidence, ms, percent, severity
from .loader_cause import Cause, cause
from .shares import CATEGORY_SQL, Share, category, has_device_work, on_ranks

if TYPE_CHECKING:
    from ..run import Run

# Beside the wait in profiled steps what the batches of all followed steps took: the model of the cause is fed with it.
WAIT_SQL = f"""
    with waits as ({CATEGORY_SQL.format(category="data_wait")}),
    followed as (
        select rank, any_value(workers) as workers, count(*) as batches, avg(fetch_ns) as fetch_ns,
            avg(cpu_ns) as fetch_cpu_ns, avg(wait_ns) as wait_ns, avg(work_ns) as work_ns
        from lineage group by rank
    )
    select * from waits left join followed using (rank) order by mean_ns desc, rank
"""
TIMER_SQL = """
    select rank, count(*) as steps, avg(coalesce(wait_ns, 0)) as mean_ns, avg(end_ns - start_ns) as step_ns,
        sum(wait_ns) / sum(end_ns - start_ns) as share, max(wait_ns) as longest_ns
    from timer
    where not coalesce(profiled, false)
        and step > (select min(first.step) from timer first where first.rank = timer.rank)
        and not exists (from lineage l where l.rank = timer.rank and l.step = timer.step and l.delivered = 0)
    group by rank having count(wait_ns) > 0 order by mean_ns desc, rank
"""


def find(run: Run) -> Iterator[Finding]:
    """Find exposed loader waits in profiled steps, else in the always-on rows.

    Where the loader was followed and the model holds, only what a step would win without the cause is lost.
    """
    shares = category(run, "data_wait")
    if shares and shares[0].share >= LEAST_SHARE:
        yield from _from_windows(run, shares)
    else:
        yield from _from_timer(run, shares[0].share if shares else None)


def _from_windows(run: Run, shares: list[Share]) -> Iterator[Finding]:
    worst = shares[0]
    why = cause(run, worst.rank)
    lost, step = _lost(run, worst.mean_ns, worst.step_ns, why)
    if lost < LEAST_SHARE * step:
        return
    sql, rows = evidence(run, WAIT_SQL)
    waits = f"{ms(worst.mean_ns)} for the data loader while nothing else is at work, {percent(worst.share)} of a {ms(worst.step_ns)}"
    sentence = f"each step waits {waits} step{on_ranks(shares)}{_named(why)}"
    if why and step != worst.step_ns:  # windows are few and may be unlike the rest: what is lost is told of all steps
        seen = f"{ms(worst.mean_ns)} of {ms(worst.step_ns)} in the profiled ones{on_ranks(shares)}"
        sentence = (
            f"a step of {ms(step)} loses {ms(lost)} ({percent(lost / step)}) to the data loader, {seen}{_named(why)}"
        )
    yield Finding(
        "loader_bound",
        f"Input-bound: {sentence}.",
        _told(why) if why else _advice(run, worst.rank),
        sql,
        rows,
        confidence="high" if worst.steps >= 3 else "low",
        severity=severity(lost / step),
        lost_ns_per_step=round(lost),
        share=lost / step,
        cause=why.name if why else None,
    )


def _from_timer(run: Run, profiled_share: float | None) -> Iterator[Finding]:
    """Look at the steps that no window saw: a stall every 32 steps is in none of three."""
    row = first_row(run.con.sql(TIMER_SQL))
    if row is None or row[4] is None or row[4] < LEAST_SHARE or row[1] < 3:
        return
    rank, steps, mean, step, share, longest = row
    why = cause(run, rank)
    lost, whole = _lost(run, mean, step, why)
    if lost < LEAST_SHARE * whole:
        return
    window = "" if profiled_share is None else f" The profiled steps show {percent(profiled_share)} only."
    hides = has_device_work(run) or profiled_share is None
    hidden = " How much of it queued device work hides is not recorded." if hides else ""
    sql, rows = evidence(run, TIMER_SQL)
    yield Finding(
        "loader_bound",
        f"Input-bound outside the windows: over {steps} steps the loop waits {ms(mean)} a step for the data loader, "
        f"{percent(share)} of a {ms(step)} step, at the longest {ms(longest)}{_named(why)}.{window}{hidden}",
        _told(why) if why else _advice(run, rank),
        sql,
        rows,
        confidence="low" if hidden else "high",
        severity=severity(lost / whole),
        lost_ns_per_step=round(lost),
        share=lost / whole,
        step_scope="always-on steps",
        cause=why.name if why else None,
    )


def _lost(run: Run, wait_ns: float, step_ns: float, why: Cause | None) -> tuple[float, float]:
    """Return what a change would win at most, and the mean step it is a part of, both in ns.

    That is the exposed wait, or what a step wins without a known cause. Where a device works, no more than the exposed
    wait: the model knows the loop only. Where none does, workers that fetch also slow the step itself down, and that is
    won too.
    """
    if why is None:
        return wait_ns, step_ns
    won = max(why.lost_ns, 0.0)
    return (min(wait_ns, won), step_ns) if has_device_work(run) else (won, why.step_ns)


def _named(why: Cause | None) -> str:
    return f"; cause: {why.name.replace('_', ' ')}" if why else ""


def _told(why: Cause) -> str:
    return f"{why.sentence} (Of all steps that were followed, {ms(why.step_ns)} each.) {why.advice}"


def _advice(run: Run, rank: int) -> str:
    workers = _workers(run, rank)
    if workers is False:
        return (
            "Load in worker processes: DataLoader(num_workers=4, persistent_workers=True), with pin_memory=True on a GPU. "
            "Loading then overlaps the step; at best all of this wait is won."
        )
    if workers:
        return (
            "The workers do not keep up: raise num_workers or prefetch_factor while cores are free, else make a sample "
            "cheaper (decode less, cache converted samples). At best all of this wait is won."
        )
    return (
        "Prepare batches ahead of the step: a torch DataLoader with num_workers > 0, or a prefetching thread around this "
        "iterable. At best all of this wait is won."
    )


def _workers(run: Run, rank: int) -> bool | None:
    """Whether the rank's loader has workers, as its spans in the trace tell, else the settings that the collector saw."""
    row = first_row(
        run.con.execute(
            """
            select coalesce(
                (select bool_or(workers) from batches where rank = $rank),
                (select max(try_cast(json_extract_string(loaders, '$[0].num_workers') as bigint)) > 0 from ranks where rank = $rank)
            )
            """,
            {"rank": rank},
        )
    )
    return row[0] if row else None
