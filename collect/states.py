"""What a model holds: the bytes of parameters, buffers, gradients and optimizer state, walked once, after a first step.

Optimizers tell by themselves, through torch's hook for all of them; a model given to ``watch_model`` adds its buffers
and its units. Of sharded tensors (DTensor) both are told: the shard on this rank, and the whole.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import optimizers
from .guard import guarded

KINDS = ("parameters", "buffers", "gradients", "optimizer")


class States:
    """Walks the optimizers of this process when each has done its first step.

    Args:
        told: Called with the sizes whenever they have become more.
    """

    what = "walk over the model"

    def __init__(self, told: Callable[[dict[str, int | None]], None]) -> None:
        self.dead = False
        self._told = told
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._last: Callable[[], Any] = lambda: None  # the optimizer that stepped last: most jobs have one
        self._counted: set[int] = set()  # ids of parameters that several optimizers may share
        self._sizes: dict[str, int | None] = dict.fromkeys(
            [*KINDS, *(f"whole_{kind}" for kind in KINDS if kind != "buffers"), "unit"]
        )

    @guarded
    def listen(self) -> None:
        """Begin to listen to optimizers, when the job has torch."""
        optimizers.listen(self._stepped)

    @guarded
    def model(self, model: Any) -> None:
        """Take note of a model: its buffers, and the largest of the units it is made of."""
        self._add("buffers", *_sum(model.buffers()))
        inner = getattr(model, "module", model)  # what DDP wraps
        units = [_sum(child.parameters())[1] for child in inner.children()] or [_sum(inner.parameters())[1]]
        self._sizes["unit"] = max([self._sizes["unit"] or 0, *units])
        self._told(dict(self._sizes))

    def close(self) -> None:
        """Listen no more."""
        optimizers.leave(self._stepped)

    let_go = close

    @guarded
    def _stepped(self, optimizer: Any) -> None:
        if self._last() is optimizer:
            return
        self._last = weakref.ref(optimizer)
        if optimizer in self._seen:
            return
        self._seen.add(optimizer)
        groups = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in self._counted]
        self._counted |= {id(p) for p in groups}
        self._add("parameters", *_sum(groups))
        self._add("gradients", *_sum(p.grad for p in groups if p.grad is not None))
        self._add("optimizer", *_sum(_tensors(optimizer.state.values())))
        self._told(dict(self._sizes))

    def _add(self, kind: str, here: int, whole: int) -> None:
        self._sizes[kind] = (self._sizes[kind] or 0) + here
        if kind != "buffers":
            self._sizes[f"whole_{kind}"] = (self._sizes[f"whole_{kind}"] or 0) + whole


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "element_size"):
            yield value
        elif isinstance(value, dict):
            yield from _tensors(value.values())
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _sum(tensors: Iterable[Any]) -> tuple[int, int]:
    """Return the bytes of tensors on this rank, and of the whole tensors that they are shards of."""
    here = whole = 0
    for tensor in tensors:
        local = getattr(tensor, "_local_tensor", tensor)
        here += local.numel() * local.element_size()
        whole += tensor.numel() * tensor.element_size()
    return here, whole
