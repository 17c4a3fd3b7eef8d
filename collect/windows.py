"""When a window of torch.profiler opens: on a schedule, on request, or after the first slow step.

Nothing here touches torch: it is asked once a step whether a window shall begin.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

JUDGE_AFTER = 10  # steps: what a normal step takes is unknown before
REMEMBERED = 64  # steps the running median looks back on


@dataclass(frozen=True)
class Window:
    """When to record windows of torch.profiler, and how long.

    Args:
        first: Step of the session that the first window records first; steps before it are left to warm up.
        active: Steps a window records.
        period: Steps from the start of one scheduled window to the next, or None for a single one.
        slow: A window opens, once, after a step of this many times the running median; None for never.
    """

    first: int = 10
    active: int = 3
    period: int | None = None
    slow: float | None = 3.0

    def __post_init__(self) -> None:
        if self.first < 0 or self.active < 1 or (self.period is not None and self.period <= self.active):
            raise ValueError(f"A window needs first >= 0, active >= 1 and a period longer than it records: {self}")

    def next_due(self, step: int) -> float:
        """Return the first step (of the session) from ``step`` on that a scheduled window records first, or inf."""
        if step <= self.first:
            return self.first
        if self.period is None:
            return math.inf
        return self.first + -(-(step - self.first) // self.period) * self.period


def every(n: int, active: int = 3, first: int = 10, slow: float | None = 3.0) -> Window:
    """Return the schedule that records ``active`` steps out of every ``n``, from step ``first`` on.

    Args:
        n: Steps from one window's start to the next one's.
        active: Steps a window records.
        first: Step of the session that the first window records first.
        slow: A window opens, once, after a step of this many times the running median; None for never.

    Raises:
        ValueError: The windows would overlap or hold no step.
    """
    return Window(first=first, active=active, period=n, slow=slow)


class Requests:
    """Windows nobody scheduled: the file ``RUN/trigger`` was touched, SIGUSR1 came, or a step was slow.

    The trigger file is not removed, because every rank has to see it: each answers a new time of change once.
    """

    def __init__(self, run: Path, factor: float | None) -> None:
        self._trigger = run / "trigger"
        self._seen = self._touched()
        self._signalled = False
        self._factor = factor
        self.recent: deque[int] = deque(maxlen=REMEMBERED)
        self.slow_from = math.inf
        self._previous: Any = None
        self._installed = False

    def listen(self) -> None:
        """Install the handler of SIGUSR1, in the main thread; one that is there already is called too."""
        if not hasattr(signal, "SIGUSR1") or threading.current_thread() is not threading.main_thread():
            return
        self._previous = signal.getsignal(signal.SIGUSR1)
        if self._previous is not None:  # None: the handler is not Python's (faulthandler's, say) and cannot be chained
            signal.signal(signal.SIGUSR1, self._on_signal)
            self._installed = True

    def judge(self) -> None:
        """Work out anew, from the ``recent`` durations of unprofiled steps, from which one on a step is slow."""
        if self._factor is not None and len(self.recent) >= JUDGE_AFTER:
            self.slow_from = self._factor * statistics.median(self.recent)

    def had_slow(self) -> None:
        """Take note of the slow step that is answered by a window: no other is."""
        self._factor, self.slow_from = None, math.inf

    def asked(self) -> bool:
        """Tell, once for each touch of the file and each signal, that somebody asked for a window."""
        touched = self._touched()
        new = touched is not None and touched != self._seen
        self._seen = touched
        signalled, self._signalled = self._signalled, False
        return new or signalled

    def close(self) -> None:
        """Put the previous signal handler back, unless the job has installed its own since."""
        if (
            self._installed
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGUSR1) == self._on_signal
        ):
            signal.signal(signal.SIGUSR1, self._previous)
        self._installed = False

    def _touched(self) -> int | None:
        try:
            return os.stat(self._trigger).st_mtime_ns
        except OSError:
            return None

    def _on_signal(self, number: int, frame: Any) -> None:
        self._signalled = True
        if callable(self._previous):
            self._previous(number, frame)
