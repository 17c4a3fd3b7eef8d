"""Why the loop waits for batches: each suspect is taken out of the measured costs, and the model says what that gives.

What gives back at least ``MOST`` of the wait is the cause; of several, the first of ``SUSPECTS``, the most particular.
When nothing particular does, it is the cost of a usual batch against the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from ...ingest.errors import StepscopeError
from ..loader_costs import Row, undisturbed
from ..loader_model import FREE, Batch, Cost, Loader
from ..whatif import Measured, Prediction, measure, shorter, simulated, storage_ns, sweep
from .finding import ms, percent

if TYPE_CHECKING:
    from ..run import Run

MOST = 0.5  # of the wait given back makes a suspect the cause
ALIKE = 1.5  # a worker is slow when its median fetch is this many times the others'
SLOW = 5  # a sample is slow when it takes this many times the slowest of a usual batch
FEW = 0.3  # of the batches may hold slow samples; more are the rule
ENOUGH = 0.02  # of the step is what may be left to win by still more workers


@dataclass(frozen=True)
class Cause:
    """What makes the loop wait: its name, a sentence, advice, and what a step would win without it, in ns.

    ``step_ns`` is the mean of the steps that this is told of: all that were followed, profiled or not.
    """

    name: str
    sentence: str
    advice: str
    lost_ns: float
    step_ns: float = 0.0


def cause(run: Run, rank: int) -> Cause | None:
    """Return why the loop of a rank waits, None when its loader was not followed or the model does not hold for it."""
    try:
        measured = measure(run, rank)
    except StepscopeError:
        return None
    return cause_of(measured) if measured.trusted else None


def cause_of(measured: Measured) -> Cause:
    """Return why a loop waits."""
    wait = measured.replayed.step_ns - fmean(batch.work.ns for batches in measured.passes for batch in batches)
    found = (one for suspect in SUSPECTS for one in suspect(measured) if one.lost_ns >= MOST * wait)
    return replace(next(found, None) or _usual(measured, wait), step_ns=measured.replayed.step_ns)


def _won(measured: Measured, change: Callable[[Batch, Row], Batch], loader: Loader | None = None) -> float:
    """Return what a step would win with every batch changed, and the loader too."""
    passes = [
        [change(batch, row) for batch, row in zip(batches, rows, strict=True)]
        for batches, rows in zip(measured.passes, measured.told.passes, strict=True)
    ]
    return measured.replayed.step_ns - simulated(passes, loader or measured.loader).step_ns


def _cheaper(saved: Callable[[Row], float]) -> Callable[[Batch, Row], Batch]:
    """Return a change that makes a fetch take so many ns less, at the share of a core that it takes."""
    return lambda batch, row: replace(batch, fetch=Cost(max(batch.fetch.ns - saved(row), 0.0), batch.fetch.cores))


def _same(batch: Batch, row: Row) -> Batch:
    return batch


def _slow_samples(measured: Measured) -> Iterator[Cause]:
    timed = [row for row in measured.told.rows if row["slowest_ns"] is not None]
    if not timed:
        return
    usual = median(row["slowest_ns"] for row in timed)
    slow = [row for row in timed if row["slowest_ns"] > SLOW * usual]
    if not slow or len(slow) > FEW * len(timed):
        return
    lost = _won(measured, _cheaper(lambda row: max(0, (row["slowest_ns"] or 0) - usual) if row in slow else 0))
    named = list(dict.fromkeys(_name(row) for row in sorted(slow, key=lambda row: -row["slowest_ns"]) if _name(row)))
    which = f" (index {', '.join(named[:5])}{' and others' if len(named) > 5 else ''})" if named else ""
    yield Cause(
        "slow_samples",
        f"{len(slow)} of {len(timed)} batches hold a slow sample{which}: up to {ms(max(row['slowest_ns'] for row in slow))}, "
        f"where the slowest of a usual batch takes {ms(usual)}. It costs {ms(lost)} a step.",
        "Look at those samples: convert or cut them beforehand, or leave them out; in_order=False lets others pass them.",
        lost,
    )


def _name(row: Row) -> str:
    path = f" {row['slowest_path']}" if row["slowest_path"] else ""
    return "" if row["slowest"] is None else f"{row['slowest']}{path}"


def _slow_worker(measured: Measured) -> Iterator[Cause]:
    of: dict[int, list[float]] = {}
    for batches, rows in zip(measured.passes, measured.told.passes, strict=True):
        for batch, row in zip(batches, rows, strict=True):
            if row["worker"] is not None:
                of.setdefault(row["worker"], []).append(batch.fetch.ns)
    if len(of) < 2:
        return
    medians = {worker: median(times) for worker, times in of.items()}
    worker = max(medians, key=lambda one: medians[one])
    others = median(at for other, at in medians.items() if other != worker)
    if medians[worker] < ALIKE * others:
        return
    longer = medians[worker] - others
    lost = _won(measured, _cheaper(lambda row: longer if row["worker"] == worker else 0))
    yield Cause(
        "slow_worker",
        f"Worker {worker} is slow: {ms(medians[worker])} a batch, where the others take {ms(others)}. In-order delivery "
        f"makes all wait for it; it costs {ms(lost)} a step.",
        "Find what only that worker does (its shard, its core, its file system), or set in_order=False.",
        lost,
    )


def _storage(measured: Measured) -> Iterator[Cause]:
    rows = measured.told.rows
    read = sum(row["read_bytes"] or 0 for row in rows)
    if not read:
        return
    lost = _won(measured, lambda batch, row: replace(batch, fetch=shorter(batch.fetch, storage_ns(row) or 0)))
    yield Cause(
        "storage",
        f"Fetches wait for storage ({read / len(rows) / 1e6:.1f} MB a batch read from it): {ms(lost)} a step.",
        "Keep the data on faster storage or in memory, read larger pieces, or add workers to have more reads under way.",
        lost,
    )


def _collate(measured: Measured) -> Iterator[Cause]:
    spent = fmean(row["collate_ns"] or 0 for row in measured.told.rows)
    lost = _won(measured, _cheaper(lambda row: row["collate_ns"] or 0), _alone(measured))
    yield Cause(
        "collate",
        f"Collating takes {ms(spent)} of a fetch of {ms(_fetch_ns(measured))} and costs {ms(lost)} a step.",
        "Make collate_fn cheaper: stack tensors of equal shape, convert beforehand, pad less.",
        lost,
    )


def _handing_over(measured: Measured) -> Iterator[Cause]:
    rows = [row for row in measured.told.rows if row["loaded_ns"] is not None and row["pickle_ns"] is not None]
    if not rows:
        return
    pickled, loaded = (
        fmean(row["pickle_ns"] for row in rows),
        fmean(row["loaded_ns"] - row["arrived_ns"] for row in rows),
    )
    free = replace(measured.loader, wake=0.0, load=FREE, load_busy=FREE, enter=FREE, give=FREE)
    lost = _won(measured, lambda batch, row: replace(batch, pickle=FREE), free)
    alone = sweep(measured, [0])[0]
    instead = (
        f"Set num_workers=0: its samples are so cheap that {ms(alone.step_ns)} a step is predicted. Or send"
        if alone.step_ns < measured.replayed.step_ns - MOST * lost
        else "Send"
    )
    yield Cause(
        "handing_over",
        f"Handing a batch from its worker to the loop takes {ms(pickled)} to pickle and {ms(loaded)} to unpickle and "
        f"costs {ms(lost)} a step.",
        f"{instead} less: few large tensors instead of many small ones or of Python objects, and smaller types; "
        'torch.multiprocessing.set_sharing_strategy("file_system") makes each tensor cheaper.',
        lost,
    )


def _cores(measured: Measured) -> Iterator[Cause]:
    waited = fmean(row["runq_ns"] or 0 for row in measured.told.rows)
    without: Callable[[Batch, Row], Batch] = lambda batch, row: replace(  # noqa: E731
        batch, fetch=shorter(batch.fetch, min(row["runq_ns"] or 0, batch.fetch.ns - (row["cpu_ns"] or 0)))
    )
    free = replace(undisturbed(measured.told, measured.loader), cores=float("inf"))
    lost = _won(measured, without, free) if waited else 0.0
    yield Cause(
        "starved_of_cores",
        f"Fetches wait for a core: {ms(waited)} a batch. It costs {ms(lost)} a step.",
        "Give the job more cores, or use fewer workers and training threads than there are cores.",
        lost,
    )


SUSPECTS = (_slow_samples, _slow_worker, _storage, _collate, _handing_over, _cores)


def _usual(measured: Measured, wait: float) -> Cause:
    """Return the general case: too few workers, with the number that would do, or batches that cost too much."""
    cpu = _cpu_share(measured)
    on_cpu = cpu > 0.5
    kind = (
        "on the CPU (decoding, transforms)"
        if on_cpu
        else "asleep or blocked (not on the CPU, not for storage, not for a core)"
    )
    spent = f"A fetch takes {ms(_fetch_ns(measured))}, {percent(max(cpu, 1 - cpu))} of it {kind}"
    lost = max(_won(measured, lambda batch, row: replace(batch, fetch=FREE), _alone(measured)), 0.0)
    recorded = measured.loader.workers
    best = enough(sweep(measured))
    won = measured.replayed.step_ns - best.step_ns
    if won >= MOST * wait and best.workers > recorded:
        unknown = (
            "" if recorded else " What handing batches over costs is not in it: a run without workers does not tell."
        )
        return Cause(
            "too_few_workers" if recorded else "no_workers",
            f"{spent}, with num_workers={recorded}. It costs {ms(lost)} a step.",
            f"Set num_workers={best.workers}: the model predicts {ms(best.step_ns)} a step; it replays this run to within "
            f"{percent(abs(measured.error))}.{unknown}",
            lost,
        )
    return Cause(
        "cpu_bound" if on_cpu else "blocked",
        f"{spent}, and costs {ms(lost)} a step; more workers would win {ms(max(won, 0))}.",
        "Make a sample cheaper: decode less, cache converted samples, or move the conversion out of the job.",
        lost,
    )


def enough(swept: list[Prediction]) -> Prediction:
    """Return the one with the fewest workers that comes within ``ENOUGH`` of the best."""
    best = min(one.step_ns for one in swept)
    return next(one for one in swept if one.step_ns <= best * (1 + ENOUGH))


def _alone(measured: Measured) -> Loader:
    """Return the loader without the disturbance by fetches, where they are on the CPU."""
    return undisturbed(measured.told, measured.loader) if _cpu_share(measured) > 0.5 else measured.loader


def _cpu_share(measured: Measured) -> float:
    rows = measured.told.rows
    return sum(row["cpu_ns"] or 0 for row in rows) / sum(row["fetch_ns"] for row in rows)


def _fetch_ns(measured: Measured) -> float:
    return fmean(row["fetch_ns"] for row in measured.told.rows)
