"""idle_unexplained: time in which nothing recorded was active."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .finding import Finding, evidence, ms, percent
from .shares import CATEGORY_SQL, category, costs, has_device_work, on_ranks, typical

if TYPE_CHECKING:
    from ..run import Run

LEAST_UNEXPLAINED = 0.05  # gaps between operators are everywhere; without a known cause they are worth a word from 5 %


def find(run: Run) -> Iterator[Finding]:
    """Find time that no lane of the ledger covers."""
    shares = category(run, "unexplained")
    if not typical(shares, LEAST_UNEXPLAINED):
        return
    worst = shares[0]
    loader = not category(run, "data_wait")
    sql, rows = evidence(run, CATEGORY_SQL.format(category="unexplained"))
    what = "the device is idle and no operator runs" if has_device_work(run) else "no operator runs"
    yield Finding(
        "idle_unexplained",
        f"In {ms(worst.mean_ns)} of a {ms(worst.step_ns)} step ({percent(worst.share)}) {what}{on_ranks(shares)}: "
        "Python between operators, or something that was not recorded"
        + (" (the data loader was not)." if loader else "."),
        ("Wrap the loader with stepscope.watch() to see whether it is waiting for data. " if loader else "")
        + "Record a window with torch.profiler(with_stack=True) and ingest that trace, to see what the host does there.",
        sql,
        rows,
        confidence="low",
        **costs(worst),
    )
