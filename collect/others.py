"""The job's own use of torch.profiler goes first.

torch allows one profiler at a time. Two of them do not raise: one comes back empty, or the process crashes
when both were prepared before either started. So the collector opens no window once the job has used a profiler, and
ends its own window when the job prepares its first.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_used = False  # whether the job ever prepared a profiler
_preparing_ours = False
_give_way: Callable[[], Any] | None = None  # ends our window, while we have one


def begin() -> None:
    """Begin a session: what the job profiled before is over."""
    global _used
    _used = False


def in_use() -> bool:
    """Tell whether the job has used torch.profiler in this session: from then on it is the job's alone.

    Windows of ours between the job's own crash some processes inside torch 2.13 (a quarter of the runs of
    ``test_a_script_that_profiles_itself_keeps_its_traces``), so one use is enough.
    """
    return _used or bool(sys.modules["torch"].autograd._profiler_enabled())


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
        global _used
        if not _preparing_ours:
            if _give_way is not None:
                _give_way()
            _used = True
        return original(self)

    profile._prepare_trace = prepare
