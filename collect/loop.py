"""``watch`` and ``profile``: what a user puts around a training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from .session import Session
from .steps import Loop
from .windows import Window

DEFAULT = Window()  # three steps from step 10 on, on request, and after the first slow step

_watching: dict[tuple[Path, int], Session] = {}


class Watched:
    """An iterable that times the requests to the one inside; everything else is that one's own."""

    def __init__(self, loader: Iterable[Any], session: Callable[[], Session]) -> None:
        self._loader = loader
        self._session = session

    def __iter__(self) -> Iterator[Any]:
        session = self._session()
        asked = perf_counter_ns()
        with session.lineage.workers_of(self._loader):
            iterator = iter(self._loader)  # here, not at the first request: it may draw from the random state
        return _pass(session, session.new_loop(self._loader, iterator, asked), iterator)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # a copy in the making has none yet
            raise AttributeError(name)
        return getattr(self._loader, name)


def _pass(session: Session, loop: Loop, iterator: Iterator[Any]) -> Iterator[Any]:
    exhausted = False
    try:
        while True:
            session.ask(loop)
            try:
                with session.span(loop):
                    batch = next(iterator)
            except StopIteration:
                exhausted = True
                return
            session.got(loop)
            yield batch
            del batch  # not kept alive while the next one is made
    finally:
        session.leave(loop, exhausted)


def watch(
    loader: Iterable[Any],
    out: str | os.PathLike[str],
    window: Window | None = DEFAULT,
    keep_raw: bool = False,
    snapshots: Window | bool = False,
) -> Any:
    """Collect from a training loop: ``for batch in stepscope.watch(loader, "runs/exp1"): ...``.

    A step goes from one request of a batch to the next. One left by ``break`` or an exception is not counted.
    Loops one after another (epochs) into the same run go on counting.

    Args:
        loader: Any iterable of batches; its length and attributes remain reachable.
        out: The run directory. All ranks of a job write into the same one.
        window: When torch.profiler records, None for never.
        keep_raw: Keep the raw Kineto files under ``out/raw``, gzipped.
        snapshots: Record the history of an accelerator's allocator, and write it to ``out/snapshots`` when memory runs out;
            ``stepscope.every(500)`` also at these steps.

    Returns:
        An iterable of the same batches in the same order.
    """
    _check(window)
    run = Path(out).absolute()
    return Watched(loader, lambda: _shared(run, window, keep_raw, snapshots))


def _check(window: Window | None) -> None:
    if window is not None and not isinstance(window, Window):
        raise TypeError(f"window is {window!r}; give stepscope.every(200, active=3), or None for no windows")


def _shared(run: Path, window: Window | None, keep_raw: bool, snapshots: Window | bool) -> Session:
    key = run, os.getpid()
    if key not in _watching:
        _watching[key] = Session(run, window, keep_raw, snapshots)
    return _watching[key]


class profile:
    """Collect from a training loop whose steps the loop itself marks with ``step()``.

    ::

        with stepscope.profile("runs/exp1", window=stepscope.every(200, active=3)) as prof:
            for batch in prof.data(loader):
                train_step(batch)
                prof.step()

    Args:
        out: The run directory. All ranks of a job write into the same one.
        window: When torch.profiler records, None for never.
        keep_raw: Keep the raw Kineto files under ``out/raw``, gzipped.
        snapshots: Record the history of an accelerator's allocator, and write it to ``out/snapshots`` when memory runs out;
            ``stepscope.every(500)`` also at these steps.
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        window: Window | None = DEFAULT,
        keep_raw: bool = False,
        snapshots: Window | bool = False,
    ) -> None:
        _check(window)
        self._make = lambda: Session(out, window, keep_raw, snapshots, bounds="call")
        self._session: Session | None = None

    def __enter__(self) -> profile:
        self._session = self._make()
        self._session.begin_first()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            self._session.snapshots.raised(error)
            self._session.close()

    def data(self, loader: Iterable[Any]) -> Any:
        """Return an iterable of the same batches whose requests are timed."""
        return Watched(loader, lambda: self._running)

    def step(self) -> None:
        """End the step under way and begin the next one."""
        self._running.boundary()

    def watch_model(self, model: Any) -> None:
        """Have the model's buffers and units measured too; parameters, gradients and optimizer state always are."""
        self._running.states.model(model)

    @property
    def _running(self) -> Session:
        if self._session is None:
            raise RuntimeError("stepscope.profile collects inside its with block only.")
        return self._session
