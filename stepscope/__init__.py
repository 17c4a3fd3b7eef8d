"""Stepscope: where did the step time go, and what would give it back?

``import stepscope`` loads nothing heavy; each name below is fetched from its room when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "watch": "stepscope.collect:watch",
    "profile": "stepscope.collect:profile",
    "every": "stepscope.collect:every",
    "open_run": "stepscope.api:open_run",
    "Run": "stepscope.api:Run",
    "ingest_traces": "stepscope.pipeline:ingest",  # stepscope.ingest is a room, and hides a function of that name
    "StepscopeError": "stepscope.ingest.errors:StepscopeError",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        room, _, called = _HOME[name].partition(":")
        return getattr(import_module(room), called)
    raise AttributeError(f"module 'stepscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
