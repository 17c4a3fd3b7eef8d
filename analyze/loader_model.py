"""A discrete-event model of torch's DataLoader: index queues, prefetch, hand-over, order of delivery, shared cores.

Every batch has a measured cost to fetch, to pickle and to unpickle, every step a measured cost to work. A cost is its
time with a core at hand and the share of it that needs one; when more is asked of the cores than there are, that
share stretches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Ns = float


@dataclass(frozen=True)
class Cost:
    """``ns`` with free cores; ``cores`` of CPU in use meanwhile, on average (a sleeping worker's is 0)."""

    ns: Ns
    cores: float = 0.0


FREE = Cost(0.0)


@dataclass(frozen=True)
class Batch:
    """What a batch costs whoever handles it.

    Attributes:
        fetch: The worker's thread that fetches, or the loop without workers.
        pickle: The worker's other thread, which sends what is fetched.
        work: The loop, with the n-th batch that it gets.
    """

    fetch: Cost
    work: Cost
    pickle: Cost = FREE


@dataclass(frozen=True)
class Loader:
    """A DataLoader's configuration, the machine's, and what every batch costs alike.

    Attributes:
        pause: ns between a worker's having something to fetch and its beginning.
        wake: ns until the loop that waits for a message begins to read it.
        load: The loop's reading and unpickling of a message whose worker has nothing to fetch meanwhile.
        load_busy: The same while the worker fetches: for a tensor's memory its Python is asked, which may be slow to
            answer then.
        enter: ns from the loop's entering ``next()`` to its looking for messages.
        give: The loop's own part of every ``next()`` after that: the next indices drawn and sent.
    """

    workers: int
    prefetch: int = 2
    in_order: bool = True
    cores: float = math.inf
    pause: Ns = 0.0
    wake: Ns = 0.0
    load: Cost = FREE
    load_busy: Cost = FREE
    enter: Cost = FREE
    give: Cost = FREE


def simulate(batches: Sequence[Batch], loader: Loader) -> list[Ns]:
    """Return when the loop asks for each batch of a pass, and last when it is done with the last one, in ns."""
    return list(_alone(batches, loader) if loader.workers == 0 else _Pass(batches, loader).run())


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

    def next(self, until: Ns = math.inf) -> int | None:
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


_LOOP = -1


def _alone(batches: Sequence[Batch], loader: Loader) -> Iterator[Ns]:
    machine = _Machine(loader.cores)
    yield 0.0
    for batch in batches:
        for cost in (batch.fetch, loader.give, batch.work):
            machine.start(_LOOP, cost)
            machine.next()
        yield machine.now


class _Pass:
    """One pass over a loader with workers; the rules are those of torch's ``_MultiProcessingDataLoaderIter``.

    Actors are the loop, the fetching threads ``0 … workers - 1`` and the pickling threads after them.
    """

    def __init__(self, batches: Sequence[Batch], loader: Loader) -> None:
        self._batches, self._loader = batches, loader
        self._machine = _Machine(loader.cores)
        self._queues: list[deque[int]] = [deque() for _ in range(loader.workers)]
        self._fetching: dict[int, int] = {}  # worker -> batch
        self._unpickled: list[deque[int]] = [deque() for _ in range(loader.workers)]  # the first one is being pickled
        self._pipe: deque[tuple[Ns, int]] = deque()  # since when, batch
        self._loaded: set[int] = set()
        self._held = [0] * loader.workers  # batches that each worker was sent and the loop has not got
        self._worker_of: dict[int, int] = {}
        self._sent = self._turn = 0

    def run(self) -> Iterator[Ns]:
        loader = self._loader
        for _ in range(loader.workers * loader.prefetch):
            self._send()
        for n, batch in enumerate(self._batches):
            yield self._machine.now
            got = self._receive(n)
            self._held[self._worker_of[got]] -= 1
            self._send()
            self._spend(loader.give)
            self._spend(batch.work)
        yield self._machine.now

    def _send(self) -> None:
        """Send the next indices to the worker whose turn it is."""
        if self._sent == len(self._batches):
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
        self._fetch(worker)

    def _fetch(self, worker: int) -> None:
        if worker in self._fetching or not self._queues[worker]:
            return
        self._fetching[worker] = batch = self._queues[worker].popleft()
        cost, pause = self._batches[batch].fetch, self._loader.pause
        whole = cost.ns + pause
        self._machine.start(worker, Cost(whole, cost.cores * cost.ns / whole if whole else 0.0))

    def _pickle(self, worker: int) -> None:
        actor = self._loader.workers + worker
        if actor not in self._machine and self._unpickled[worker]:
            self._machine.start(actor, self._batches[self._unpickled[worker][0]].pickle)

    def _pass_to(self, until: Ns) -> bool:
        """Let time pass until the end of a job or ``until``; tell whether the loop's own job has ended."""
        actor = self._machine.next(until)
        if actor is None or actor == _LOOP:
            return actor == _LOOP
        worker = actor % self._loader.workers
        if actor == worker:
            self._unpickled[worker].append(self._fetching.pop(worker))
            self._fetch(worker)
        else:
            self._pipe.append((self._machine.now, self._unpickled[worker].popleft()))
        self._pickle(worker)
        return False

    def _spend(self, cost: Cost) -> None:
        self._machine.start(_LOOP, cost)
        while not self._pass_to(math.inf):
            pass

    def _receive(self, n: int) -> int:
        """Read messages as they come until the batch is there that the loop gets next, and return it."""
        asked = self._machine.now
        self._spend(self._loader.enter)
        while n not in self._loaded or not self._loader.in_order:
            while not self._pipe:
                self._pass_to(math.inf)
            since, batch = self._pipe.popleft()
            if since > asked:
                self._sleep(since + self._loader.wake)
            busy = self._worker_of[batch] in self._fetching
            self._spend(self._loader.load_busy if busy else self._loader.load)
            if not self._loader.in_order:
                return batch
            self._loaded.add(batch)
        self._loaded.remove(n)
        return n

    def _sleep(self, until: Ns) -> None:
        while self._machine.now < until:
            self._pass_to(until)
