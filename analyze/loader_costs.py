"""What a run tells about the costs of its loader: table ``lineage`` in, batches and constants of the model out."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ..ingest.errors import StepscopeError
from .loader_model import FREE, Batch, Cost, Loader

if TYPE_CHECKING:
    from .run import Run

BATCHES = 2000  # that are modelled, at least, where there are as many: the last ones, of a pass no more
LEAST = 8  # batches after the first ones without which there is nothing steady to speak of
Row = dict[str, Any]


@dataclass(frozen=True)
class Recorded:
    """The rows of ``lineage`` that a model of a rank's loader is made of.

    Attributes:
        rank: Whose.
        passes: Rows of passes over the loader, in the order of delivery.
        step_ns: The mean steady step.
        cores: The rank's share of its host's.
    """

    rank: int
    passes: list[list[Row]]
    step_ns: float
    cores: float

    @property
    def rows(self) -> list[Row]:
        """The rows of all passes."""
        return [row for rows in self.passes for row in rows]


_COLUMNS = (
    *("rank", "loader", "pass", "task", "workers", "prefetch", "in_order", "worker", "requested_ns", "fetch_start_ns"),
    *("fetch_end_ns", "fetch_ns", "cpu_ns", "runq_ns", "blocked_ns", "read_bytes", "slowest", "slowest_path"),
    *("slowest_ns", "collate_ns", "pickle_ns", "pickle_cpu_ns", "sent_ns", "arrived_ns", "loaded_ns", "asked_ns"),
    *("got_ns", "wait_cpu_ns", "work_ns", "work_cpu_ns", "work_runq_ns", "share_of_cores"),
)

# Batches without a whole record (one broken off in the middle of its step) are of no use to the model.
_ROWS = f"""
with followed as (
    select l.*, r.cores / (select count(*) from ranks o where o.host is not distinct from r.host) as share_of_cores
    from lineage l join ranks r using (rank)
    where rank = coalesce($rank, (select min(rank) from lineage where fetch_ns is not null))
        and fetch_ns is not null and work_ns is not null
)
select {", ".join(_COLUMNS)} from followed
where (workers, prefetch) is not distinct from (select mode((workers, prefetch)) from followed)
order by loader, pass, delivered
"""


def recorded(run: Run, rank: int | None = None) -> Recorded:
    """Return what ``run`` tells about the loader of a rank, by default the first that was followed.

    Raises:
        StepscopeError: No loader was followed there, or for too few batches.
    """
    rows = run.con.execute(_ROWS, {"rank": rank}).fetchall()
    if not rows:
        raise StepscopeError(
            f"{run.path} follows no batch of a torch DataLoader. Record one with stepscope.watch(loader, ...)."
        )
    passes: dict[tuple[str, int], list[Row]] = {}
    for values in rows:
        row = dict(zip(_COLUMNS, values, strict=True))
        passes.setdefault((row["loader"], row["pass"]), []).append(row)
    kept = [steps[-BATCHES:] for steps in passes.values() if len(steps) >= LEAST + filling(steps[0])]
    if not kept:
        raise StepscopeError(f"{run.path} follows too few batches of a loader to tell its steady step. Record more.")
    while len(kept) > 1 and sum(map(len, kept[1:])) >= BATCHES:
        kept.pop(0)
    first = kept[0][0]
    steady = fmean(mean_step([row["asked_ns"] for row in steps], filling(first)) for steps in kept)
    return Recorded(first["rank"], kept, steady, first["share_of_cores"] or math.inf)


def filling(row: Row) -> int:
    """Return how many batches of a pass are its start: those asked for before the loop began."""
    return max(1, row["workers"] * (row["prefetch"] or 0))


def steady(filling: int, requests: int) -> slice:
    """Return which of a pass's requests are steady: after the queues were filled and while indices are still given out.

    Of a pass too short for that, those after the filling, or the last ``LEAST``.
    """
    begin = max(0, min(filling, requests - LEAST))
    return slice(begin, requests - filling if requests - filling - begin >= LEAST else requests)


def mean_step(asked: Sequence[float], filling: int) -> float:
    """Return the mean time between the steady ones of requests."""
    kept = asked[steady(filling, len(asked))]
    return float(kept[-1] - kept[0]) / (len(kept) - 1)


def loader_of(told: Recorded) -> Loader:
    """Return the recorded configuration with what every batch costs alike."""
    rows, first = told.rows, told.passes[0][0]
    plain = Loader(first["workers"], first["prefetch"] or 2, first["in_order"], told.cores)
    if plain.workers == 0:
        return replace(plain, give=Cost(_mean(row["got_ns"] - row["fetch_end_ns"] for row in rows), 1.0))
    sent = _sent(told)
    idle, busy = _loads(told)
    return replace(
        plain,
        pause=_mean(_pauses(told)),
        wake=_mean(row["arrived_ns"] - row["sent_ns"] for row in sent if row["sent_ns"] > row["asked_ns"]),
        enter=Cost(_mean(_entered(told)), 1.0),
        load=idle or busy or FREE,
        load_busy=busy or idle or FREE,
        give=Cost(_mean(_given(sent)), 1.0),
    )


def batch_of(row: Row, alone: bool) -> Batch:
    """Return a batch's costs; ``alone`` without waiting for a core, which the model adds where it is the job's doing."""

    def cost(ns: int | None, cpu: int | None, runq: int | None) -> Cost:
        whole = max((ns or 0) - (runq or 0) * alone, cpu or 0, 1)
        return Cost(whole, (cpu or 0) / whole)

    return Batch(
        cost(row["fetch_ns"], row["cpu_ns"], row["runq_ns"]),
        cost(row["work_ns"], row["work_cpu_ns"], row["work_runq_ns"]) if row["work_cpu_ns"] is not None else FREE,
        cost(row["pickle_ns"], row["pickle_cpu_ns"], 0) if row["pickle_ns"] else FREE,
    )


def _pauses(told: Recorded) -> list[int]:
    """Return how long workers took to begin what they had been sent, once they were done with what was before it."""
    pauses = []
    for lane in _lanes(told):
        for before, row in pairwise(lane):
            if row["task"] > before["task"] and row["requested_ns"] is not None:
                pauses.append(max(0, row["fetch_start_ns"] - max(row["requested_ns"], before["fetch_end_ns"])))
    return pauses


def _entered(told: Recorded) -> Iterable[int]:
    """Yield how long the loop took to look for a message that was there when it asked, where it read no other first."""
    for rows in told.passes:
        read = sorted(row["loaded_ns"] for row in rows if row["loaded_ns"] is not None)
        for row in rows:
            if row["loaded_ns"] is not None and row["sent_ns"] < row["asked_ns"] < row["arrived_ns"]:
                others = bisect(read, row["arrived_ns"]) - bisect(read, row["asked_ns"])
                if not others:
                    yield row["arrived_ns"] - row["asked_ns"]


def _loads(told: Recorded) -> tuple[Cost | None, Cost | None]:
    """Return what reading and unpickling a message takes with its worker idle, and with it fetching meanwhile."""
    idle: list[Row] = []
    busy: list[Row] = []
    for lane in _lanes(told):
        for at, row in enumerate(lane):
            if row["loaded_ns"] is not None:
                (busy if _fetches_meanwhile(row, lane[at + 1 : at + 2 + (row["prefetch"] or 2)]) else idle).append(row)
    return _load(idle), _load(busy)


def undisturbed(told: Recorded, loader: Loader) -> Loader:
    """Return a loader whose loop is not disturbed in ``next()`` by those that want the same core or interpreter.

    What its fastest tenth took tells; for unpickling, where every worker was slow to answer, the CPU that it took.
    """
    if loader.workers == 0:
        return loader
    sent = _sent(told)
    cpu = min(one.ns * one.cores for one in (loader.load, loader.load_busy))
    load = Cost(min(_tenth(row["loaded_ns"] - row["arrived_ns"] for row in sent), cpu), 1.0)
    enter, give = Cost(_tenth(_entered(told)), 1.0), Cost(_tenth(_given(sent)), 1.0)
    return replace(loader, load=load, load_busy=load, enter=enter, give=give)


def _tenth(values: Iterable[float]) -> float:
    listed = sorted(values)
    return listed[len(listed) // 10] if listed else 0.0


def _sent(told: Recorded) -> list[Row]:
    return [row for row in told.rows if row["sent_ns"] is not None and row["loaded_ns"] is not None]


def _given(rows: list[Row]) -> list[int]:
    return [row["got_ns"] - max(row["loaded_ns"], row["asked_ns"]) for row in rows]


def _fetches_meanwhile(row: Row, following: list[Row]) -> bool:
    return any(
        one["fetch_start_ns"] < row["loaded_ns"] and row["arrived_ns"] < one["fetch_end_ns"] for one in following
    )


def _load(rows: list[Row]) -> Cost | None:
    if not rows:
        return None
    taken = [row["loaded_ns"] - row["arrived_ns"] for row in rows]
    over = sum(row["got_ns"] - max(row["asked_ns"], row["arrived_ns"]) for row in rows)
    cpu = sum(row["wait_cpu_ns"] or 0 for row in rows)  # of all of next(), in which waiting for a message uses none
    return Cost(fmean(taken), min(cpu / over, 1.0) if over else 0.0)


def _lanes(told: Recorded) -> Iterable[list[Row]]:
    """Yield what each worker fetched in a pass, in that order."""
    for rows in told.passes:
        for worker in {row["worker"] for row in rows if row["worker"] is not None}:
            yield sorted((row for row in rows if row["worker"] == worker), key=lambda row: row["fetch_start_ns"])


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return fmean(listed) if listed else 0.0
