"""Stepscope: where did the step time go, and what would give it back?

``import stepscope`` loads nothing heavy; each name below is fetched from its room when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "watch": "stepscope.collect",
    "profile": "stepscope.collect",
    "every": "stepscope.collect",
    "open_run": "stepscope.api",
    "Run": "stepscope.api",
    "ingest": "stepscope.pipeline",
    "StepscopeError": "stepscope.ingest.errors",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'stepscope' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
