"""What page, terminal and JSON say first: the headline numbers and the findings in their order."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from ..analyze.run import Run
from .book import Answer, Book

_INTEGERS = ("rank", "lost_ns_per_step", "worst_ns")


def headline(book: Book) -> Answer:
    """Return the run's headline numbers: one row of ``headline.sql``."""
    return book.ask(
        "headline",
        "Steps: wall times of the judged ones, which are the complete profiled ones. Device busy: the union of its "
        "events over the span from the first to the last. Waiting: time in the loader's next() over the wall time "
        "of every step the always-on timer saw.",
        "steps",
    )


def mean_ledger(book: Book) -> Answer:
    """Return the ledger of the mean step: rows of ``ledger_means.sql``."""
    return book.ask(
        "ledger_means",
        "The mean step's wall time, split so that each category takes only time that earlier ones did not. The "
        "categories sum to every step to the nanosecond.",
        "ledger",
    )


def subject(run: Run) -> str:
    """Return what the answer is about: the run's directory, or the traces of a run made only for this answer."""
    path = Path(run.path)
    passing = path.is_relative_to(tempfile.gettempdir()) and any(part.startswith("stepscope-") for part in path.parts)
    if not passing:
        return str(run.path)
    sources = [row[0] for row in run.sql("select source from sources order by source").fetchall()]
    if not sources:
        return str(run.path)
    return sources[0] if len(sources) == 1 else f"{sources[0]} and {len(sources) - 1} more"


def findings(run: Run) -> list[dict[str, Any]]:
    """Return the findings as dicts, the largest win first, NULL as None."""
    return records(run.findings())


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as dicts of plain Python values: NULL is None, nanoseconds are int."""
    return [{str(key): _plain(str(key), value) for key, value in row.items()} for row in frame.to_dict("records")]


def _plain(key: str, value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | dict):
        return value
    if pd.isna(value):
        return None
    return int(value) if key in _INTEGERS else value
