"""Collects from an unchanged script: hooks into torch's DataLoader and optimizers.

Torch is not imported for it (what a script sets up before its own import has to count): the hooks go in right
after the script's import. Iterators, batches and optimizers stay the very objects they are.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from time import perf_counter_ns
from types import ModuleType
from typing import Any

from . import optimizers, others
from .guard import logger
from .session import Session

Action = Callable[[Any], None]


def install(session: Session) -> None:
    """Connect ``session`` to torch, now or when it is imported."""
    after: dict[str, Action] = {
        "torch.utils.data.dataloader": functools.partial(_hook_loaders, session),
        "torch.optim.optimizer": functools.partial(_hook_optimizers, session),
    }
    for name in [name for name in after if name in sys.modules]:
        after.pop(name)(sys.modules[name])
    if after:
        sys.meta_path.insert(0, _AfterImport(after))


class _AfterImport(MetaPathFinder):
    """Calls an action, once, with a module that has just been imported."""

    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = actions

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        action = self._actions.pop(fullname, None)
        spec = PathFinder.find_spec(fullname, path) if action else None
        if action is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            try:
                action(module)
            except Exception as error:
                logger.warning("Stepscope cannot hook into %s: %s", fullname, error)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _hook_loaders(session: Session, dataloader: Any) -> None:
    loader_class, iterator_class = dataloader.DataLoader, dataloader._BaseDataLoaderIter
    begin, following = loader_class.__iter__, iterator_class.__next__

    @functools.wraps(begin)
    def __iter__(self: Any) -> Any:
        since = perf_counter_ns()
        with session.lineage.workers_of(self):
            iterator = begin(self)
        with suppress(AttributeError, TypeError):
            session.leave(
                getattr(iterator, "_stepscope", None), False, late=True
            )  # persistent workers: the same iterator
            iterator._stepscope = loop = session.new_loop(self, iterator, since)
            weakref.finalize(iterator, session.leave, loop, False, late=True).atexit = False  # the loop was broken off
        return iterator

    @functools.wraps(following)
    def __next__(self: Any) -> Any:
        loop = getattr(self, "_stepscope", None)
        if loop is None:
            return following(self)
        session.ask(loop)
        try:
            batch = following(self)
        except StopIteration:
            session.leave(loop, True)
            raise
        session.got(loop)
        return batch

    loader_class.__iter__, iterator_class.__next__ = __iter__, __next__


def _hook_optimizers(session: Session, module: Any) -> None:
    others.notice()
    init = module.Optimizer.__init__

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        session.bounds = "optimizer"
        init(self, *args, **kwargs)

    module.Optimizer.__init__ = __init__
    optimizers.listen(_Lead(session))
    session.states.listen()


class _Lead:
    """Ends a step whenever the leading optimizer steps: the first seen, or one that steps more often."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lead: Callable[[], Any] = lambda: None
        self._others: set[int] = set()  # optimizers that stepped since the lead did

    def __call__(self, optimizer: Any) -> None:
        lead = self._lead()
        if lead is not None and lead is not optimizer and id(optimizer) not in self._others:
            self._others.add(id(optimizer))
            return
        if lead is not optimizer:
            self._lead = weakref.ref(optimizer)
        self._others.clear()
        self._session.boundary()
