"""The mean step and the mean of each ledger category, a rank a row: what most findings start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...ingest.rows import first_row
from .finding import ms, severity

if TYPE_CHECKING:
    from ..run import Run

CATEGORY_SQL = """
    select l.rank, count(*) as steps, avg(l.ns) as mean_ns, avg(j.dur_ns) as step_ns, sum(l.ns) / sum(j.dur_ns) as share,
        median(l.ns / j.dur_ns) as median_share
    from judged j join ledger l using (rank, step)
    where l.category = '{category}'
    group by l.rank order by mean_ns desc, l.rank
"""
ALIKE = 1.2  # ranks whose means differ by less than this factor are not told apart


@dataclass(frozen=True)
class Share:
    """A category on one rank: mean ns a step, the mean step's ns, and how many steps were averaged.

    ``share`` is of the mean step; ``median_share`` is of the typical step, which one hiccup does not move.
    """

    rank: int
    steps: int
    mean_ns: float
    step_ns: float
    share: float
    median_share: float


def category(run: Run, name: str) -> list[Share]:
    """Return a category's share on every rank that can show it, the largest first."""
    return [Share(*row) for row in run.con.sql(CATEGORY_SQL.format(category=name)).fetchall()]


def costs(share: Share) -> dict[str, Any]:
    """Return the fields of a ``Finding`` that say what a category costs."""
    return {
        "severity": severity(share.share),
        "lost_ns_per_step": round(share.mean_ns),
        "share": share.share,
    }


def typical(shares: list[Share], least: float) -> bool:
    """Whether a category takes at least ``least`` of the mean step and of the typical step of the rank that has most."""
    return bool(shares) and shares[0].share >= least and shares[0].median_share >= least


def mean_step_ns(run: Run) -> float | None:
    """Return the mean wall time of the judged steps over all ranks, None without steps."""
    row = first_row(run.con.sql("select avg(dur_ns) from judged"))
    return None if row is None else row[0]


def on_ranks(shares: list[Share]) -> str:
    """Say where a category was seen, for a sentence: nothing when the ranks are much alike."""
    if len(shares) < 2 or shares[0].mean_ns < ALIKE * shares[-1].mean_ns:
        return ""
    most, least = shares[0], shares[-1]
    return f" (rank {most.rank} most: {ms(most.mean_ns)}; rank {least.rank} least: {ms(least.mean_ns)})"


def has_device_work(run: Run) -> bool:
    """Whether the run saw a device at work; CPU-only runs are judged by other rules."""
    row = first_row(run.con.sql("select count(*) from device_time"))
    return bool(row and row[0])
