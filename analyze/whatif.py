"""What another loader configuration would give: the model of ``loader_model`` fed with what a run measured.

The recorded configuration is replayed first. How far that is off is the model's own error, printed with every
prediction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Literal

from ..ingest.errors import StepscopeError
from .loader_costs import Recorded, Row, batch_of, loader_of, mean_step, recorded, steady
from .loader_model import FREE, Batch, Cost, Loader, simulate

if TYPE_CHECKING:
    from .run import Run

TRUSTED = 0.10  # a replay that is further off than this says that the model does not hold here
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
class Measured:
    """What a rank's run tells about its loader, and how well the model replays it."""

    told: Recorded
    loader: Loader
    passes: list[list[Batch]]
    replayed: Prediction

    @property
    def rank(self) -> int:
        """Whose loader it is."""
        return self.told.rank

    @property
    def step_ns(self) -> float:
        """The mean steady step as recorded."""
        return self.told.step_ns

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

    Waiting for a core is taken for the job's own doing, which the model has to give. When that does not replay the
    recorded step, it is taken for somebody else's, a part of the costs, if that replays better.

    Raises:
        StepscopeError: No loader was followed there, or for too few batches.
    """
    told = recorded(run, rank)
    loader = loader_of(told)
    own, foreign = (
        Measured(told, loader, passes, simulated(passes, loader))
        for passes in ([[batch_of(row, alone) for row in rows] for rows in told.passes] for alone in (True, False))
    )
    return own if own.trusted or abs(own.error) <= abs(foreign.error) else foreign


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
    passes = [
        [_changed(batch, row, cache_hit, cache, storage_speed) for batch, row in zip(batches, rows, strict=True)]
        for batches, rows in zip(measured.passes, measured.told.passes, strict=True)
    ]
    found = simulated(passes, changed)
    return replace(found, error_ns=math.hypot(found.error_ns, measured.error * found.step_ns))


def sweep(measured: Measured, workers: Iterable[int] = SWEEP) -> list[Prediction]:
    """Return the steady step for each number of workers."""
    return [predict(measured, workers=n) for n in workers]


def storage_ns(row: Row) -> int | None:
    """Return for how long a fetch waited for storage, None where the system does not tell."""
    if row["read_bytes"] is None:
        return None
    blocked: int | None = row["blocked_ns"]
    return blocked if row["read_bytes"] else 0


def _changed(batch: Batch, row: Row, cache_hit: float, cache: Cache, storage_speed: float) -> Batch:
    """Return a batch as a cache and another storage would have it; what needs a core they leave alone."""
    fetch, storage = batch.fetch, storage_ns(row)
    if cache_hit and cache == "samples":  # a hit costs nothing
        fetch = replace(fetch, ns=fetch.ns * (1 - cache_hit))
        storage = None if storage is None else round(storage * (1 - cache_hit))
        cache_hit = 0.0
    if cache_hit == 0 and storage_speed == 1:
        return replace(batch, fetch=fetch)
    if storage is None:
        raise StepscopeError("The run does not tell how long its workers waited for storage: /proc was not there.")
    saved = storage - storage * (1 - cache_hit) / storage_speed
    return replace(batch, fetch=shorter(fetch, saved))


def shorter(cost: Cost, saved: float) -> Cost:
    """Return a cost that takes so many ns less, of which none needed a core; what does need one is left."""
    busy = cost.cores * cost.ns
    left = max(cost.ns - saved, busy)
    return Cost(left, busy / left) if left > 0 else FREE


def simulated(passes: list[list[Batch]], loader: Loader) -> Prediction:
    """Return the mean steady step, its interval twice the standard error over eight stretches of it."""
    filled = max(1, loader.workers * loader.prefetch)
    means, steps = [], []
    for batches in passes:
        asked = simulate(batches, loader)[:-1]
        means.append(mean_step(asked, filled))
        kept = asked[steady(filled, len(asked))]
        steps += [later - sooner for sooner, later in pairwise(kept)]
    size = max(1, len(steps) // 8)
    stretches = [fmean(steps[at : at + size]) for at in range(0, len(steps) - size + 1, size)]
    error = 2 * stdev(stretches) / math.sqrt(len(stretches)) if len(stretches) > 1 else math.inf
    return Prediction(loader.workers, loader.prefetch, loader.in_order, fmean(means), error)
