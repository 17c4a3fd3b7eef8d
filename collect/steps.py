"""The step under way: when it began, how long it waited for batches, when it is over.

Stamps are ``time.perf_counter_ns()``; nothing here reads a clock, a file or torch.
"""

from __future__ import annotations

from typing import Any


class Loop:
    """One pass over a loader."""

    __slots__ = ("batches", "born", "lineage", "name", "native", "over", "round", "since")

    def __init__(self, name: str, native: bool, since: int, born: int = 0) -> None:
        self.born = born  # the beginning of a step that it was begun after
        self.since: int | None = since  # when it was begun, until the first request
        self.over = False
        self.name = name  # class of what is iterated
        self.native = native  # whether torch writes the span of next() into traces itself
        self.lineage: Any = None  # follows its batches, where the loader can be looked into
        self.round = -1  # the beginning of a step that `batches` counts from
        self.batches = 0


class Steps:
    """Counts the steps of a session and adds up the step under way.

    The session counts ``step`` up when it has finished; what comes between the end of a loop and the next request of a batch (a
    checkpoint, say) belongs to no step.
    """

    __slots__ = ("asked", "batches", "ever_asked", "fresh", "round", "start", "steady", "step", "wait", "wait_start")

    def __init__(self) -> None:
        self.step = 0  # ordinal in the session of the step under way
        self.round = 0  # counts the beginnings, those of a step begun anew too
        self.start: int | None = None
        self.fresh = False  # the next request of a batch begins the step anew
        self.ever_asked = False
        self.asked = 0
        self.batches = 0
        self.steady = False  # whether a loop begun before the step has fed it
        self.wait = 0
        self.wait_start: int | None = None

    def begin(self, t: int) -> None:
        """Begin the step under way, or begin it anew, at ``t``."""
        self.start = t
        self.fresh = False
        self.round += 1
        self.batches = self.wait = 0
        self.steady = False
        self.wait_start = None

    def ask(self, t: int) -> None:
        """Take note that a loop asks for a batch at ``t``."""
        self.ever_asked = True
        self.asked = t
        if self.wait_start is None:
            self.wait_start = t

    def got(self, loop: Loop, t: int) -> None:
        """Take note that the batch asked for last has come at ``t``."""
        self.wait += t - self.asked
        self.batches += 1
        if loop.round != self.round:
            loop.round, loop.batches = self.round, 0
        loop.batches += 1
        self.steady = self.steady or loop.born < self.round

    def fed_by(self, loop: Loop) -> int:
        """Return how many batches of the step under way came from ``loop``."""
        return loop.batches if loop.round == self.round else 0

    def resumed_by(self, loop: Loop) -> bool:
        """Tell whether ``loop``, about to ask, goes on after an interlude.

        That is a loop begun within the step, validation say, and perhaps broken off unseen: it alone has fed the step.
        """
        return self.batches > 0 and not self.steady and loop.born < self.round

    def depends_on(self, loop: Loop) -> bool:
        """Tell whether no other loop has fed the step under way."""
        return self.batches == self.fed_by(loop)
