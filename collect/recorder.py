"""Drives torch.profiler for one window at a time and writes its trace.

A window is *armed* one step early, so that what starting the profiler costs falls before the recorded steps,
then *recording*, and ends with the raw Kineto file in ``RUN/raw``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..ingest.writer import rank_dir, replacing
from . import others
from .enqueued import enqueued
from .guard import guarded, logger
from .host import accelerator, torch_if_loaded


class Recorder:
    """The profiler windows of one session.

    Args:
        run: The run directory.
        origin: Tells what a trace shall say about its session and rank; asked when the trace is written.
        done: Takes the path of every trace written.
    """

    what = "profiler window"

    def __init__(self, run: Path, origin: Callable[[], dict[str, Any]], done: Callable[[Path], None]) -> None:
        self.dead = False
        others.begin()
        self.recording = False
        self._run = run
        self._origin = origin
        self._done = done
        self._profiler: Any = None
        self._marker: Any = None
        self._first = 0
        self._steps = 0
        self._told = False
        self._armed_ns = 0

    @property
    def armed(self) -> bool:
        """Whether a window was armed and has not ended."""
        return self._profiler is not None

    @guarded
    def arm(self) -> None:
        """Prepare a window, unless the job does not use torch or its own profiler is at work."""
        torch = torch_if_loaded()
        if torch is None:
            return
        from torch.profiler import ProfilerActivity, profile

        others.notice()
        if others.in_use():
            if not self._told:
                logger.warning("The job is using torch.profiler itself: Stepscope opens no more windows in it.")
            self._told = True
            return
        activities = [ProfilerActivity.CPU]
        if (device := accelerator(torch)) is not None:  # one in use: profiling shall not initialise any
            activities.append(getattr(ProfilerActivity, device.__name__.rpartition(".")[2].upper()))
        kineto = profile(activities=activities, record_shapes=True, profile_memory=True)
        with others.preparing_ours(give_way=self.stop), _quiet_kineto():
            kineto.prepare_trace()
        self._profiler = kineto
        self._armed_ns = time.time_ns()

    @guarded
    def start(self, step: int) -> None:
        """Record the armed window from here on; ``step`` is the number of the first step in it."""
        if self._profiler is None:
            return
        self._profiler.start_trace()
        self.recording = True
        self._first, self._steps = step, 0
        self._open_marker(step)

    @guarded
    def next_step(self, step: int) -> None:
        """Go on from a finished step to ``step``."""
        self._close_marker()
        self._steps += 1
        self._open_marker(step)

    @guarded
    def stop(self, finished: bool = False) -> None:
        """End the window and hand on its trace, if a step was finished in it.

        Args:
            finished: Whether the step under way ends with the window, rather than being broken off.
        """
        if self._profiler is None:
            return
        self._close_marker()
        profiler, self._profiler = self._profiler, None
        others.ours_is_over()
        if not self.recording:
            profiler.start_trace()  # the only clean way out of a prepared profiler
            profiler.stop_trace()
            return
        self.recording = False
        self._steps += finished
        origin = {**self._origin(), "first_step": self._first, "steps": self._steps}
        if accelerator(torch_if_loaded()) is None:  # a device's kernels tell all of it themselves
            origin["enqueued"] = enqueued(self._armed_ns)
        profiler.add_metadata_json("stepscope", json.dumps(origin))  # taken only while the profiler runs
        profiler.stop_trace()
        if self._steps:
            self._done(self._write(profiler, origin))

    @guarded
    def span(self, name: str) -> Any:
        """Return a context that shows as a span named ``name`` in the trace, None after a failure."""
        from torch.profiler import record_function

        return record_function(name)

    def _write(self, profiler: Any, origin: dict[str, Any]) -> Path:
        name = f"{origin['session']}-{self._first}.pt.trace.json"
        path = self._run / "raw" / rank_dir(origin["rank"]) / name
        with replacing(path) as temporary:
            profiler.export_chrome_trace(os.fspath(temporary))  # holds the GIL: a thread would not spare the loop
        return path

    def let_go(self) -> None:
        """After a failure: leave no profiler running."""
        self._close_marker()
        profiler, self._profiler = self._profiler, None
        others.ours_is_over()
        if profiler is not None and self.recording:
            self.recording = False
            profiler.stop_trace()

    def _open_marker(self, step: int) -> None:
        self._marker = self.span(f"ProfilerStep#{step}")
        self._marker.__enter__()

    def _close_marker(self) -> None:
        if self._marker is not None:
            self._marker.__exit__(None, None, None)
            self._marker = None


@contextmanager
def _quiet_kineto() -> Iterator[None]:
    """Keep Kineto from announcing every start and stop on the job's stderr, unless the job chose a log level."""
    if "KINETO_LOG_LEVEL" in os.environ:
        yield
        return
    os.environ["KINETO_LOG_LEVEL"] = "6"  # read once, when the first profiler is prepared
    try:
        yield
    finally:
        del os.environ["KINETO_LOG_LEVEL"]
