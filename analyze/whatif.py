"""What another loader configuration would give: the model of ``loader_model`` fed with what a run measured.

The recorded configuration is replayed first. How far that is off is the model's own error, printed with every
prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any, Literal

from ..ingest.errors import StepscopeError
from .loader_model import Cost, Loader, simulate

if TYPE_CHECKING:
    from .run import Run

TRUSTED = 0.10  # a replay that is further off than this says that the model does not hold here
BATCHES = 2000  # that are modelled, at least, where there are as many: the last ones, of a pass no more
OWN = 0.7  # of the cores kept busy, from which on the job's threads are in each other's way
LEAST = 8  # batches after the first ones without which there is nothing steady to speak of
SWEEP = (0, 1, 2, 3, 4, 6, 8, 12, 16)
Cache = Literal["bytes", "samples"]


@dataclass(frozen=True)
class Prediction:
    """The mean steady step under a configuration, with the half width of its interval, in ns."""

    workers: int
    prefetch: int
    in_order: bool
    step_ns: float
    error_ns: float


@dataclass(frozen=True)
class Batch:
    """What a batch costs: its fetch with a core at hand, the part of it that waits for storage, and its step's work."""

    fetch: Cost
    storage_ns: float | None  # None: the system does not tell
    work: Cost
    row: dict[str, Any]  # of the table lineage, as measured


@dataclass(frozen=True)
class Measured:
    """What a rank's run tells about its loader."""

    rank: int
    loader: Loader
    passes: list[list[Batch]]
    step_ns: float  # the mean steady step as recorded
    replayed: Prediction

    @property
    def error(self) -> float:
        """The replay's error, as a share of the recorded step."""
        return self.replayed.step_ns / self.step_ns - 1

    @property
    def trusted(self) -> bool:
        """Whether the replay is near enough for predictions to be of use."""
        return abs(self.error) <= TRUSTED


def measure(run: Run, rank: int | None = None) -> Measured:
    """Return what ``run`` tells about the loader of a rank, by default the first that was followed.

    Raises:
        StepscopeError: No loader was followed there, or for too few batches.
    """
    rows = run.con.execute(_ROWS, {"rank": rank}).fetchall()
    if not rows:
        raise StepscopeError(
            f"{run.path} follows no batch of a torch DataLoader. Record one with stepscope.watch(loader, ...)."
        )
    passes: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        one = dict(zip(_COLUMNS, row, strict=True))
        passes.setdefault((one["loader"], one["pass"]), []).append(one)
    kept = [steps[-BATCHES:] for steps in passes.values() if len(steps) >= LEAST + _first(steps[0])]
    if not kept:
        raise StepscopeError(f"{run.path} follows too few batches of a loader to tell its steady step. Record more.")
    while len(kept) > 1 and sum(map(len, kept[1:])) >= BATCHES:
        kept.pop(0)
    first = kept[0][0]
    loader = Loader(first["workers"], first["prefetch"] or 2, first["in_order"], first["share_of_cores"] or math.inf)
    rows_kept = [one for steps in kept for one in steps]
    take, transfer = _handover(rows_kept)
    loader = replace(loader, take_ns=take, transfer_ns=transfer)
    own = _demand(kept) > OWN * loader.cores
    batches = [[_batch(one, own) for one in steps] for steps in kept]
    recorded = fmean(_steady([one["asked_ns"] for one in steps], _first(first)) for steps in kept)
    return Measured(first["rank"], loader, batches, recorded, simulated(batches, loader))


def predict(
    measured: Measured,
    *,
    workers: int | None = None,
    prefetch: int | None = None,
    in_order: bool | None = None,
    cache_hit: float = 0.0,
    cache: Cache = "bytes",
    storage_speed: float = 1.0,
) -> Prediction:
    """Return the steady step under another configuration.

    Args:
        measured: What ``measure`` returned.
        workers: ``num_workers``; as recorded by default, like the next two.
        prefetch: ``prefetch_factor``.
        in_order: Whether batches are delivered in order.
        cache_hit: The share of samples served by a cache, 0..1.
        cache: What it holds: ``bytes`` saves waiting for storage, ``samples`` (converted ones) the whole fetch.
        storage_speed: How many times faster storage is than it was.

    Raises:
        StepscopeError: A change of storage is asked about and the run does not tell how long storage took.
    """
    loader = measured.loader
    changed = replace(
        loader,
        workers=loader.workers if workers is None else workers,
        prefetch=loader.prefetch if prefetch is None else prefetch,
        in_order=loader.in_order if in_order is None else in_order,
    )
    passes = [[_changed(one, cache_hit, cache, storage_speed) for one in steps] for steps in measured.passes]
    found = simulated(passes, changed)
    return replace(found, error_ns=math.hypot(found.error_ns, measured.error * found.step_ns))


def sweep(measured: Measured, workers: Iterable[int] = SWEEP) -> list[Prediction]:
    """Return the steady step for each number of workers."""
    return [predict(measured, workers=n) for n in workers]


_COLUMNS = [
    *("rank", "loader", "pass", "workers", "prefetch", "in_order", "worker", "fetch_ns", "cpu_ns", "runq_ns"),
    *("blocked_ns", "read_bytes", "slowest", "slowest_ns", "collate_ns", "fetch_end_ns", "asked_ns", "got_ns"),
    *("work_ns", "work_cpu_ns", "work_runq_ns", "share_of_cores"),
]

# Batches without a whole record (the last of a pass has no work yet) are of no use to the model.
_ROWS = f"""
with followed as (
    select l.*, r.cores / (select count(*) from ranks o where o.host is not distinct from r.host) as share_of_cores
    from lineage l join ranks r using (rank)
    where rank = coalesce($rank, (select min(rank) from lineage where fetch_ns is not null))
        and fetch_ns is not null and work_ns is not null
)
select {", ".join(_COLUMNS)} from followed
where (workers, prefetch) = (select mode((workers, prefetch)) from followed)
order by loader, pass, delivered
"""


def _first(row: dict[str, Any]) -> int:
    """Return how many batches of a pass are its start: those asked for before the loop began."""
    return max(1, row["workers"] * (row["prefetch"] or 0))


def _steady(asked: list[Any], first: int) -> float:
    return float(asked[-1] - asked[first]) / (len(asked) - 1 - first)


def _demand(passes: list[list[dict[str, Any]]]) -> float:
    """Return how many cores fetching and working kept busy on average."""
    busy = sum(
        (one["cpu_ns"] or 0) * (one["workers"] > 0) + (one["work_cpu_ns"] or 0) for rows in passes for one in rows
    )
    return busy / sum(rows[-1]["got_ns"] - rows[0]["asked_ns"] for rows in passes)


def _batch(row: dict[str, Any], own: bool) -> Batch:
    """Return a batch's costs. Waiting for a core is no part of them if it is the job's ``own`` doing: the model adds it."""
    fetch = max(row["fetch_ns"] - (row["runq_ns"] or 0) * own, 1)
    work = max(row["work_ns"] - (row["work_runq_ns"] or 0) * own, 1)
    storage = None if row["read_bytes"] is None else row["blocked_ns"] if row["read_bytes"] else 0
    cpu = row["cpu_ns"] or 0
    return Batch(Cost(fetch, min(cpu / fetch, 1.0)), storage, Cost(work, (row["work_cpu_ns"] or 0) / work), row)


def _handover(rows: list[dict[str, Any]]) -> tuple[float, float]:
    """Return what handing a batch over takes of the loop's time and on the way, from batches waited for and others."""
    rows = [row for row in rows if row["workers"]]
    awaited = [row["got_ns"] - row["fetch_end_ns"] for row in rows if row["fetch_end_ns"] > row["asked_ns"]]
    ready = [row["got_ns"] - row["asked_ns"] for row in rows if row["fetch_end_ns"] <= row["asked_ns"]]
    whole = median(awaited) if awaited else 0.0
    take = median(ready) if ready else 0.0
    if awaited and (not ready or take > whole):
        take = whole
    return take, max(whole - take, 0.0)


def _changed(batch: Batch, cache_hit: float, cache: Cache, storage_speed: float) -> Batch:
    """Return a batch as a cache and another storage would have it; what needs a core they leave alone."""
    fetch, storage = batch.fetch, batch.storage_ns
    if cache_hit and cache == "samples":  # a hit costs nothing
        fetch = replace(fetch, ns=fetch.ns * (1 - cache_hit))
        storage = None if storage is None else storage * (1 - cache_hit)
        cache_hit = 0.0
    if cache_hit == 0 and storage_speed == 1:
        return replace(batch, fetch=fetch, storage_ns=storage)
    if storage is None:
        raise StepscopeError("The run does not tell how long its workers waited for storage: /proc was not there.")
    busy = fetch.cores * fetch.ns
    left = max(fetch.ns - storage + storage * (1 - cache_hit) / storage_speed, busy, 1.0)
    return replace(batch, fetch=Cost(left, busy / left))


def simulated(passes: list[list[Batch]], loader: Loader) -> Prediction:
    """Return the mean steady step, its interval twice the standard error over eight stretches of it."""
    first = max(1, loader.workers * loader.prefetch)
    steps: list[float] = []
    for batches in passes:
        asked = simulate([one.fetch for one in batches], [one.work for one in batches], loader)[:-1]
        since = min(first, len(asked) - 1 - LEAST // 2)
        steps += [later - sooner for sooner, later in zip(asked[since:], asked[since + 1 :], strict=False)]
    size = max(1, len(steps) // 8)
    means = [fmean(steps[at : at + size]) for at in range(0, len(steps) - size + 1, size)]
    error = 2 * stdev(means) / math.sqrt(len(means)) if len(means) > 1 else math.inf
    return Prediction(loader.workers, loader.prefetch, loader.in_order, fmean(steps), error)
