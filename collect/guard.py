"""A failure of the collector is told once and never reaches the training loop."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("stepscope")


def guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method harmless: its object's first failure is logged, as of ``what``, and leaves it ``dead``.

    What the object holds it gives back in ``let_go``. KeyboardInterrupt and the like are the job's and pass.
    """

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.dead:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            self.dead = True
            logger.warning(
                "Stepscope's %s is off in this process from here on; training goes on. Cause: %s: %s",
                self.what,
                type(error).__name__,
                error,
                exc_info=logger.isEnabledFor(logging.DEBUG),
            )
            with contextlib.suppress(Exception):
                self.let_go()
            return None

    return call
