"""A discrete-event model of torch's DataLoader: index queues, prefetch, delivery in order, cores shared with training.

Every batch has a measured cost to fetch and every step a measured cost to work. A cost is its time with a core at
hand and the share of it that needs one; when more is asked of the cores than there are, that share stretches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """``ns`` with free cores; ``cores`` of CPU in use meanwhile, on average (a sleeping worker's is 0)."""

    ns: float
    cores: float = 0.0


@dataclass(frozen=True)
class Loader:
    """A DataLoader's configuration and the machine's.

    ``transfer_ns`` is the way of a batch from a worker to the loop's process, ``take_ns`` what the loop spends on
    taking it over; both are none of the concern of a loader without workers.
    """

    workers: int
    prefetch: int = 2
    in_order: bool = True
    cores: float = math.inf
    transfer_ns: float = 0.0
    take_ns: float = 0.0


_LOOP = -1


class _Machine:
    """Jobs that run at once, one an actor, and slow each other down when they want more cores than there are."""

    def __init__(self, cores: float) -> None:
        self.now = 0.0
        self._cores = cores
        self._jobs: dict[int, list[float]] = {}  # actor -> [ns left, cores wanted]

    def start(self, actor: int, cost: Cost) -> None:
        self._jobs[actor] = [max(cost.ns, 0.0), cost.cores]

    def __contains__(self, actor: int) -> bool:
        return actor in self._jobs

    def next(self, until: float = math.inf) -> int | None:
        """Let time pass to the end of the next job, which is returned, but no further than ``until``."""
        stretch = max(1.0, sum(wanted for _, wanted in self._jobs.values()) / self._cores)
        slower = {a: 1 + min(wanted, 1.0) * (stretch - 1) for a, (_, wanted) in self._jobs.items()}
        first = min(self._jobs, key=lambda actor: (self._jobs[actor][0] * slower[actor], actor), default=None)
        lasts = math.inf if first is None else self._jobs[first][0] * slower[first]
        passed = min(lasts, until - self.now)
        for actor, job in self._jobs.items():
            job[0] = max(0.0, job[0] - passed / slower[actor])
        self.now += passed
        if first is None or passed < lasts:
            return None
        del self._jobs[first]
        return first


def simulate(fetches: Sequence[Cost], works: Sequence[Cost], loader: Loader) -> list[float]:
    """Return when the loop asks for each batch of a pass, and last when it is done with the last one, in ns.

    Args:
        fetches: What each batch costs to fetch, in the order of the sampler.
        works: What the loop does with the n-th batch that it gets.
        loader: The configuration.
    """
    if loader.workers == 0:
        return list(_alone(fetches, works, loader))
    return list(_Pass(fetches, works, loader).run())


def _alone(fetches: Sequence[Cost], works: Sequence[Cost], loader: Loader) -> Iterator[float]:
    machine = _Machine(loader.cores)
    yield 0.0
    for fetch, work in zip(fetches, works, strict=True):
        for cost in (fetch, work):
            machine.start(_LOOP, cost)
            machine.next()
        yield machine.now


class _Pass:
    """One pass over a loader with workers; the rules are those of torch's ``_MultiProcessingDataLoaderIter``."""

    def __init__(self, fetches: Sequence[Cost], works: Sequence[Cost], loader: Loader) -> None:
        self._fetches, self._works, self._loader = fetches, works, loader
        self._machine = _Machine(loader.cores)
        self._queues: list[deque[int]] = [deque() for _ in range(loader.workers)]
        self._under_way: dict[int, int] = {}  # worker -> batch
        self._arrives: dict[int, float] = {}  # fetched batch -> when it has come
        self._held = [0] * loader.workers  # batches that each worker was sent and the loop has not got
        self._worker_of: dict[int, int] = {}
        self._sent = self._turn = 0

    def run(self) -> Iterator[float]:
        loader = self._loader
        for _ in range(loader.workers * loader.prefetch):
            self._send()
        for n, work in enumerate(self._works):
            yield self._machine.now
            batch = self._wait(n)
            self._held[self._worker_of[batch]] -= 1
            self._send()
            self._spend(Cost(loader.take_ns, 1.0))
            self._spend(work)
        yield self._machine.now

    def _send(self) -> None:
        """Send the next indices to the worker whose turn it is."""
        if self._sent == len(self._fetches):
            return
        loader = self._loader
        for _ in range(loader.workers):
            worker = self._turn
            self._turn = (self._turn + 1) % loader.workers
            if loader.in_order or self._held[worker] < loader.prefetch:
                break
        self._queues[worker].append(self._sent)
        self._worker_of[self._sent] = worker
        self._held[worker] += 1
        self._sent += 1
        self._begin(worker)

    def _begin(self, worker: int) -> None:
        if worker not in self._machine and self._queues[worker]:
            batch = self._queues[worker].popleft()
            self._under_way[worker] = batch
            self._machine.start(worker, self._fetches[batch])

    def _pass_to(self, until: float) -> bool:
        """Let time pass until the end of a job or ``until``; tell whether the loop's own job has ended."""
        actor = self._machine.next(until)
        if actor is not None and actor != _LOOP:
            self._arrives[self._under_way.pop(actor)] = self._machine.now + self._loader.transfer_ns
            self._begin(actor)
        return actor == _LOOP

    def _spend(self, cost: Cost) -> None:
        self._machine.start(_LOOP, cost)
        while not self._pass_to(math.inf):
            pass

    def _wait(self, n: int) -> int:
        """Let time pass until the batch that the loop gets next has come, and return it."""
        while True:
            if self._loader.in_order:
                batch = n if n in self._arrives else None
            else:
                batch = min(self._arrives, key=lambda one: (self._arrives[one], one), default=None)
            comes = math.inf if batch is None else self._arrives[batch]
            if batch is not None and comes <= self._machine.now:
                del self._arrives[batch]
                return batch
            self._pass_to(comes)
