"""One process's collection into one run: joins the step timer, the windows and the files.

A session lives from the first ``watch`` of a run to the end of the process, or as long as the block of
``profile``. Every method that the training loop calls is guarded.
"""

from __future__ import annotations

import math
import os
import secrets
import time
import weakref
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing import util
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Literal

from .. import __version__
from ..ingest.errors import StepscopeError
from ..ingest.writer import create_run, rank_dir, write_json
from . import host, others
from .convert import Converter
from .counters import Counters
from .guard import guarded, logger
from .lineage import Lineage
from .recorder import Recorder
from .snapshots import Snapshots
from .states import States
from .steps import Loop, Steps
from .timerlog import NOTHING, TimerLog, next_step
from .windows import Requests, Window

Bounds = Literal["loader", "call", "optimizer"]
NO_SPAN: AbstractContextManager[Any] = nullcontext()
TICK_NS = 100_000_000  # memory is read and requests are looked for no more often than this

_open: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """Collects the steps of this process.

    Args:
        out: The run directory; any number of processes may share it.
        window: When torch.profiler records, None for never.
        keep_raw: Keep the raw Kineto files.
        snapshots: Whether to record the allocator's history; a window tells when it is written, besides at an OOM.
        bounds: What ends a step: the driving loop's next request, the user's call or an optimizer's step.
    """

    what = "collector"

    def __init__(
        self,
        out: str | os.PathLike[str],
        window: Window | None,
        keep_raw: bool = False,
        snapshots: Window | bool = False,
        bounds: Bounds = "loader",
    ) -> None:
        started = time.time_ns()
        self._offset = started - perf_counter_ns()  # one for the whole session: durations stay monotonic
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(started // 10**9))
        self.id = f"{stamp}-{os.getpid()}-{secrets.token_hex(3)}"
        self.dead = False
        self._out = os.fspath(out)
        self.run = Path(out).absolute()
        self.bounds = bounds
        self.steps = Steps()
        self.lineage = Lineage(self.run, self.id, self._offset)
        self.converter = Converter(self.run, keep_raw)
        self.recorder = Recorder(self.run, self._origin, self.converter.take)
        self._requests = Requests(self.run, window.slow if window else None)
        self.counters = Counters(self.run, self.id)
        self.states = States(self._take_states)
        self.snapshots = Snapshots(
            self.run, snapshots, lambda: (self._facts["rank"], self.id, self._number(self.steps.step))
        )
        self._log: TimerLog | None = None
        self._facts: dict[str, Any] = {
            "session": self.id,
            "rank": None,
            "world_size": None,
            "started_ns": started,
            "clock_offset_ns": self._offset,
            "loaders": [],
            "states": None,
            **dict.fromkeys(("local_rank", "backend", "devices", "device_name", "device_memory", "torch")),
        }
        self._window = window
        self._wanted = False  # somebody asked for a window
        self._seen_to = -1  # the step that windows were last seen to for
        self._look_at = 0.0 if window else math.inf  # the step that windows are to be seen to for next
        self._record_at = self._stop_at = 0
        self._disturbed = False  # a window was opened or closed just before the step under way
        self._driver: Loop | None = None
        self._cost = 0  # ns that the collector spent since the last row
        self._next_tick = 0
        self._start()

    @guarded
    def _start(self) -> None:
        # Unlike atexit's, it also runs at the end of multiprocessing's children, in which mp.spawn trains.
        self._finalizer = util.Finalize(None, self.close, exitpriority=10)
        _open.add(self)
        if "://" in self._out:
            raise StepscopeError(
                f"A run is recorded into a local directory, not to {self._out}. Copy it there afterwards."
            )
        create_run(self.run, __version__)
        if self._window is not None:
            self._requests.listen()
            others.notice()
        if host.rank_and_world() is not None:
            self._settle()

    # What the loop calls.

    @guarded
    def new_loop(self, loader: Any, iterator: Any, since: int) -> Loop:
        """Take note of a new pass over ``loader``, begun ``since`` then."""
        self.states.listen()
        settings = host.loader_settings(loader)
        if settings not in self._facts["loaders"]:
            self._facts["loaders"].append(settings)
            if self._log is not None:
                self._write_facts()
        self.counters.loader(iterator)
        # torch's own iterators write the span of their requests into traces themselves.
        native = any(base.__name__ == "_BaseDataLoaderIter" for base in type(iterator).__mro__)
        loop = Loop(type(loader).__name__, native, since, self.steps.round)
        loop.lineage = self.lineage.new_pass(loader, iterator, since)
        return loop

    @guarded
    def ask(self, loop: Loop) -> None:
        """Take note that ``loop`` asks for a batch; its first request includes the making of the iterator."""
        entered = perf_counter_ns()
        steps, since = self.steps, loop.since
        loop.since = None
        if self._driver is None:
            self._driver = loop
        if not steps.steady and steps.resumed_by(loop):
            self._break_off()
        if steps.fresh or steps.start is None:
            self._begin(entered if since is None else since)
        elif self.bounds == "loader" and loop is self._driver and steps.batches:
            self._turn(entered)
        if loop.lineage is not None:
            loop.lineage.about_to_ask()
        left = perf_counter_ns()
        asked = left if since is None or since < (steps.start or 0) else since
        steps.ask(asked)
        if loop.lineage is not None:
            loop.lineage.ask(asked)
        self._cost += left - entered

    @guarded
    def got(self, loop: Loop) -> None:
        """Take note that the batch ``loop`` asked for has come."""
        t = perf_counter_ns()
        self.steps.got(loop, t)
        if loop.lineage is not None:
            loop.lineage.got(t, self.steps.step)
            self._cost += perf_counter_ns() - t

    @guarded
    def leave(self, loop: Loop | None, exhausted: bool, late: bool = False) -> None:
        """Take note, once, that ``loop`` is over, by the end of its loader or otherwise; or was some time ago."""
        if loop is None or loop.over:
            return
        loop.over = True
        entered = perf_counter_ns()
        if loop.lineage is not None:
            if exhausted:
                loop.lineage.end(entered, self.steps.step)
            self.lineage.flush()
        steps = self.steps
        # A loop that calls step() every few batches may leave its last step open.
        finished = exhausted and self.bounds == "call" and steps.fed_by(loop) > 0
        if finished:
            self._finish(entered)
        driven = loop is self._driver
        if driven:
            self._driver = None
        alone = steps.depends_on(loop) and (steps.batches > 0 or not late)
        if alone or finished or (driven and self.bounds == "loader"):
            self._break_off(finished)
        self._cost += perf_counter_ns() - entered

    def span(self, loop: Loop | None) -> AbstractContextManager[Any]:
        """Return a context for a request of ``loop`` that shows in traces, where torch has none itself."""
        if loop is None or loop.native or not self.recorder.recording:
            return NO_SPAN
        return self.recorder.span(f"enumerate(stepscope)#{loop.name}.__next__") or NO_SPAN

    @guarded
    def boundary(self) -> None:
        """End the step under way here and begin the next one."""
        entered = perf_counter_ns()
        if self.steps.start is None or (self.steps.fresh and self.steps.ever_asked):
            self._begin(entered)  # between loops no step is under way
        else:
            self._turn(entered)
        self._cost += perf_counter_ns() - entered

    @guarded
    def begin_first(self) -> None:
        """Begin the first step here; a request of a batch soon after begins it anew."""
        self.states.listen()
        self._begin(perf_counter_ns())
        self.steps.fresh = True

    def close(self) -> None:
        """End the session: the open window ends, rows become Parquet, conversions are waited for."""
        self.dead = True
        self.let_go()
        self._finalizer.cancel()
        self.converter.close()

    def let_go(self) -> None:
        """Stop collecting and put everything in order."""
        _open.discard(self)
        self.states.close()
        self.recorder.stop()
        self._requests.close()
        self.counters.close()
        self.snapshots.close()
        self.lineage.close()
        if self._log is not None:
            self._log.close()
            with suppress(OSError):
                self._write_facts()

    # Steps and windows.

    def _break_off(self, finished: bool = False) -> None:
        """What is under way is no step, or a ``finished`` one: the next request begins anew, and no window spans it."""
        self.steps.fresh = True
        self.recorder.stop(finished)

    def _turn(self, t: int) -> None:
        self._finish(t)
        self._begin(t)

    def _begin(self, t: int) -> None:
        """Begin the step under way, at ``t`` or once windows and counters have been seen to: that is no part of a step."""
        self._disturbed = self.steps.step >= self._look_at and self._see_to_windows()
        if self._log is not None and not self.recorder.recording:
            if t >= self.counters.due_at:
                self.counters.read(self._facts["rank"], self._number(self.steps.step), t + self._offset)
                self._disturbed = True
            if not self.snapshots.dead and self.snapshots.step(self.steps.step):
                self._disturbed = True
        self.steps.begin(perf_counter_ns() if self._disturbed else t)

    def _finish(self, t: int) -> None:
        log = self._log or self._settle()
        steps, offset = self.steps, self._offset
        start, waited = steps.start, steps.wait_start
        assert start is not None
        profiled = self.recorder.recording
        full = log.append(
            steps.step,
            start + offset,
            t + offset,
            0 if waited is None else waited + offset,
            steps.wait,
            steps.batches if steps.ever_asked else -1,
            self._cost,
            profiled,
        )
        self._cost = 0
        if not (profiled or self._disturbed):
            requests = self._requests
            requests.recent.append(t - start)
            if t - start > requests.slow_from:
                requests.had_slow()
                self._want()
        steps.step += 1
        if full or t >= self._next_tick:
            self._tick(log, t)

    def _tick(self, log: TimerLog, t: int) -> None:
        """Do what is too dear for every step: write the rows, read memory, look for requests."""
        held = NOTHING
        if t >= self._next_tick:
            self._next_tick = t + TICK_NS
            held = host.memory_held()
            self.lineage.flush()
            self._requests.judge()
            if self._window is not None and self._requests.asked():
                self._want()
        if not log.flush(held):
            logger.warning("%s was deleted; what comes now is recorded there anew.", self.run)
            create_run(self.run, __version__)
            self._write_facts()

    def _want(self) -> None:
        """Have a window opened soon."""
        self._wanted = True
        self._look_at = 0.0

    def _see_to_windows(self) -> bool:
        """Open, go on with or end a window before the step under way. Returns whether that took time."""
        step, window, recorder = self.steps.step, self._window, self.recorder
        if window is None or recorder.dead or self._seen_to == step:
            return False
        self._seen_to = step
        took_time = False
        if recorder.recording and step < self._stop_at:
            recorder.next_step(self._number(step))
            return False
        if recorder.recording:
            recorder.stop(finished=True)
            took_time = True
        due = window.next_due(step)
        if not recorder.armed and (due <= step + 1 or self._wanted):
            self._wanted = False
            self._record_at = step if due == step else step + 1
            recorder.arm()
            took_time = True
        if recorder.armed and step >= self._record_at:
            recorder.start(self._number(step))
            self._stop_at = step + window.active
            took_time = True
        self._look_at = step + 1 if recorder.armed else window.next_due(step + 1) - 1
        return took_time

    def _number(self, step: int) -> int:
        """Return the job's own number of a step of this session."""
        return (self._log or self._settle()).base + step

    def _take_states(self, sizes: dict[str, int | None]) -> None:
        self._facts["states"] = sizes
        if self._log is not None:
            self._write_facts()

    # Who we are.

    def _settle(self) -> TimerLog:
        """Find out the rank, as late as may be: torch.distributed may be initialised after the session."""
        rank, world_size = host.rank_and_world() or (0, 1)
        self._facts.update(rank=rank, world_size=world_size)
        self._log = TimerLog(self.run, rank, self.id, next_step(self.run, rank))
        self._facts["first_step"] = self._log.base
        self._write_facts()
        return self._log

    def _write_facts(self) -> None:
        # At the end of a job the process group may be gone: what was known stays.
        self._facts.update({key: value for key, value in host.facts().items() if value is not None})
        write_json(self._facts, self.run / "sessions" / rank_dir(self._facts["rank"]) / f"{self.id}.json")

    def _origin(self) -> dict[str, Any]:
        return {
            "session": self.id,
            "rank": self._facts["rank"],
            "world_size": self._facts["world_size"],
            "host": self._facts["host"],
            "version": __version__,
        }


def _forget() -> None:
    """In a forked child (a loader's worker, say) the parent's sessions are none of its business."""
    for session in list(_open):
        session.dead = session.recorder.dead = session.lineage.dead = True
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
