"""Why the loop waits for batches: each suspect is taken out of the measured costs, and the model says what that gives.

What gives back at least ``MOST`` of the wait is the cause. When nothing particular does, it is the cost of a usual
batch against the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING

from ...ingest.errors import StepscopeError
from ..loader_model import Cost
from ..whatif import Batch, Measured, measure, simulated, sweep
from .finding import ms, percent

if TYPE_CHECKING:
    from ..run import Run

MOST = 0.5  # of the wait given back makes a suspect the cause
ALIKE = 1.5  # a worker is slow when its median fetch is this many times the others'
SLOW = 5  # a sample is slow when it takes this many times the slowest of a usual batch
ENOUGH = 0.02  # of the step is what may be left to win by still more workers


@dataclass(frozen=True)
class Cause:
    """What makes the loop wait: its name, a sentence, advice, and the wait a step that it explains."""

    name: str
    sentence: str
    advice: str
    lost_ns: float


def cause(run: Run, rank: int) -> Cause | None:
    """Return why the loop of a rank waits, None when its loader was not followed or the model does not hold for it."""
    try:
        measured = measure(run, rank)
    except StepscopeError:
        return None
    return cause_of(measured) if measured.trusted else None


def cause_of(measured: Measured) -> Cause:
    """Return why a loop waits."""
    wait = measured.replayed.step_ns - fmean(one.work.ns for steps in measured.passes for one in steps)
    suspects = [found for suspect in _SUSPECTS for found in suspect(measured) if found.lost_ns >= MOST * wait]
    return max(suspects, key=lambda one: one.lost_ns, default=None) or _too_few(measured, wait)


def _without(measured: Measured, saved: Callable[[Batch], float]) -> float:
    """Return what a step would win if every fetch took so many ns less."""

    def changed(one: Batch) -> Batch:
        left = max(one.fetch.ns - saved(one), 1.0)
        return replace(one, fetch=Cost(left, min(one.fetch.cores * one.fetch.ns / left, one.fetch.cores)))

    passes = [[changed(one) for one in steps] for steps in measured.passes]
    return measured.replayed.step_ns - simulated(passes, measured.loader).step_ns


def _all(measured: Measured) -> list[Batch]:
    return [one for steps in measured.passes for one in steps]


def _slow_samples(measured: Measured) -> Iterator[Cause]:
    timed = [one for one in _all(measured) if one.row["slowest_ns"] is not None]
    if not timed:
        return
    usual = median(one.row["slowest_ns"] for one in timed)
    slow = [one for one in timed if one.row["slowest_ns"] > SLOW * usual]
    if not slow or len(slow) > 0.3 * len(timed):
        return
    limit = SLOW * usual
    lost = _without(
        measured, lambda one: max(0, (one.row["slowest_ns"] or 0) - usual) * ((one.row["slowest_ns"] or 0) > limit)
    )
    named = sorted({str(one.row["slowest"]) for one in slow if one.row["slowest"] is not None})
    which = f" (index {', '.join(named[:5])}{' and others' if len(named) > 5 else ''})" if named else ""
    worst = max(one.row["slowest_ns"] for one in slow)
    yield Cause(
        "slow_samples",
        f"{len(slow)} of {len(timed)} batches hold a slow sample{which}: up to {ms(worst)}, where the slowest of a usual "
        f"batch takes {ms(usual)}. It costs {ms(lost)} a step.",
        "Look at those samples: convert or cut them beforehand, or leave them out; in_order=False lets others pass them.",
        lost,
    )


def _slow_worker(measured: Measured) -> Iterator[Cause]:
    of: dict[int, list[float]] = {}
    for one in _all(measured):
        if one.row["worker"] is not None:
            of.setdefault(one.row["worker"], []).append(one.fetch.ns)
    if len(of) < 2:
        return
    medians = {worker: median(times) for worker, times in of.items()}
    worker = max(medians, key=lambda one: medians[one])
    others = median(at for other, at in medians.items() if other != worker)
    if medians[worker] < ALIKE * others:
        return
    lost = _without(measured, lambda one: one.fetch.ns * (1 - others / medians[worker]) * (one.row["worker"] == worker))
    yield Cause(
        "slow_worker",
        f"Worker {worker} is slow: {ms(medians[worker])} a batch, where the others take {ms(others)}. In-order delivery "
        f"makes all wait for it; it costs {ms(lost)} a step.",
        "Find what only that worker does (its shard, its core, its file system), or set in_order=False.",
        lost,
    )


def _storage(measured: Measured) -> Iterator[Cause]:
    lost = _without(measured, lambda one: one.storage_ns or 0)
    read = sum(one.row["read_bytes"] or 0 for one in _all(measured))
    if read:
        yield Cause(
            "storage",
            f"Fetches wait for storage ({read / len(_all(measured)) / 1e6:.1f} MB a batch read from it): {ms(lost)} a step.",
            "Keep the data on faster storage or in memory, read larger pieces, or add workers to have more reads under way.",
            lost,
        )


def _cores(measured: Measured) -> Iterator[Cause]:
    waited = fmean(one.row["runq_ns"] or 0 for one in _all(measured))
    free = replace(measured.loader, cores=float("inf"))
    passes = [
        [
            replace(one, fetch=replace(one.fetch, ns=max(one.row["fetch_ns"] - (one.row["runq_ns"] or 0), 1.0)))
            for one in rows
        ]
        for rows in measured.passes
    ]
    lost = measured.replayed.step_ns - simulated(passes, free).step_ns
    yield Cause(
        "starved_of_cores",
        f"Fetches wait for a core: {ms(waited)} a batch. It costs {ms(lost)} a step.",
        "Give the job more cores, or use fewer workers and training threads than there are cores.",
        lost,
    )


def _handing_over(measured: Measured) -> Iterator[Cause]:
    loader = measured.loader
    lost = measured.replayed.step_ns - simulated(measured.passes, replace(loader, transfer_ns=0, take_ns=0)).step_ns
    yield Cause(
        "handing_over",
        f"Handing a batch from a worker to the loop takes {ms(loader.transfer_ns + loader.take_ns)} and costs {ms(lost)} a step.",
        "Send less through the queue: return tensors rather than Python objects or arrays, and smaller types.",
        lost,
    )


def _collate(measured: Measured) -> Iterator[Cause]:
    spent = fmean(one.row["collate_ns"] or 0 for one in _all(measured))
    lost = _without(measured, lambda one: one.row["collate_ns"] or 0)
    yield Cause(
        "collate",
        f"Collating takes {ms(spent)} of a {ms(fmean(one.fetch.ns for one in _all(measured)))} fetch and costs {ms(lost)} a step.",
        "Make collate_fn cheaper: stack tensors of equal shape, convert beforehand, pad less.",
        lost,
    )


def _too_few(measured: Measured, wait: float) -> Cause:
    """Return the general case, with the number of workers that would do."""
    batches = _all(measured)
    cpu = sum(one.fetch.ns * one.fetch.cores for one in batches) / sum(one.fetch.ns for one in batches)
    kind = "on the CPU (decoding, transforms)" if cpu > 0.5 else "waiting, neither on the CPU nor for storage or a core"
    swept = {one.workers: one.step_ns for one in sweep(measured) if one.workers}
    best = min(swept.values())
    enough, found = next((n, step) for n, step in swept.items() if step <= best * (1 + ENOUGH))
    won = measured.replayed.step_ns - found
    spent = f"A fetch takes {ms(fmean(one.fetch.ns for one in batches))}, {percent(max(cpu, 1 - cpu))} of it {kind}"
    if won < MOST * wait:
        return Cause(
            "cpu_bound" if cpu > 0.5 else "blocked",
            f"{spent}; more workers would win {ms(max(won, 0))} a step.",
            "Make a sample cheaper: decode less, cache converted samples, or move the conversion out of the job.",
            wait,
        )
    name = "no_workers" if measured.loader.workers == 0 else "too_few_workers"
    return Cause(
        name,
        f"{spent}, with num_workers={measured.loader.workers}.",
        f"Set num_workers={enough}: the model predicts {ms(found)} a step ({measured.error:+.1%} is its error on this run).",
        won,
    )


_SUSPECTS = (_slow_samples, _slow_worker, _storage, _cores, _handing_over, _collate)
