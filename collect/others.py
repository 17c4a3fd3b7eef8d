"""The job's own use of torch.profiler goes first.

torch allows one profiler at a time. Two of them do not raise: one comes back empty, or the process crashes
when both were prepared before either started. So the collector opens no window while a profiler of the job is
at work, and ends its own window when the job prepares one.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_theirs: weakref.ref[Any] | None = None  # the profiler that the job prepared last
_preparing_ours = False
_give_way: Callable[[], Any] | None = None  # ends our window, while we have one


def at_work() -> bool:
    """Tell whether a profiler of the job is prepared or running."""
    if sys.modules["torch"].autograd._profiler_enabled():
        return True
    other = _theirs() if _theirs is not None else None
    return other is not None and other.entered and other.kineto_results is None


@contextmanager
def preparing_ours(give_way: Callable[[], Any]) -> Iterator[None]:
    """Mark the profiler prepared inside as ours; ``give_way`` is called when the job prepares its own."""
    global _preparing_ours, _give_way
    _preparing_ours = True
    try:
        yield
        _give_way = give_way
    finally:
        _preparing_ours = False


def ours_is_over() -> None:
    """Our window has ended: nothing has to give way."""
    global _give_way
    _give_way = None


def notice() -> None:
    """Take notice, from now on, of profilers that the job prepares, if torch is there."""
    profile: Any = getattr(sys.modules.get("torch.autograd.profiler"), "profile", None)
    original = getattr(profile, "_prepare_trace", None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def prepare(self: Any) -> Any:
        global _theirs
        if not _preparing_ours:
            if _give_way is not None:
                _give_way()
            _theirs = weakref.ref(self)
        return original(self)

    profile._prepare_trace = prepare
