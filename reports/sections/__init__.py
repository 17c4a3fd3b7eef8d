"""The parts of the page in their order: one file each, holding ``section(book) -> Section``.

A new one is a copy of a small file here (``memory.py``), its name in ``ORDER`` and its questions in
``analyze/sql``.
"""

from __future__ import annotations

from importlib import import_module

from ..blocks import Section
from ..book import Book

ORDER = (
    "ledger",
    "loading",
    "communication",
    "waiting",
    "memory",
    "work",
    "timeline",
    "quality",
    "definitions",
)


def sections(book: Book) -> list[Section]:
    """Return the sections of a run's page."""
    return [import_module(f".{name}", __package__).section(book) for name in ORDER]
