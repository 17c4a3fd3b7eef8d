"""Tells who listens when any optimizer of this process has made a step.

One hook of torch's stays for good: hooks added or removed while an optimizer calls them raise into the loop, and the
end of a step is where sessions begin and end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Listener = Callable[[Any], None]

_listeners: tuple[Listener, ...] = ()  # replaced, never changed: one may go while all are called
_hooked: Any = None  # the module that the hook is in


def listen(listener: Listener) -> None:
    """Call ``listener`` with every optimizer that has stepped, if the job has torch's; twice is once."""
    global _listeners, _hooked
    module = sys.modules.get("torch.optim.optimizer")
    if module is None or not hasattr(module, "register_optimizer_step_post_hook"):
        return
    if _hooked is not module:
        _hooked = module
        module.register_optimizer_step_post_hook(_stepped)
    if listener not in _listeners:
        _listeners = (*_listeners, listener)


def leave(listener: Listener) -> None:
    """Call ``listener`` no more."""
    global _listeners
    _listeners = tuple(one for one in _listeners if one != listener)


def _stepped(optimizer: Any, args: Any, kwargs: Any) -> None:
    for listener in _listeners:
        listener(optimizer)
