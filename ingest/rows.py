"""The first row of an answer."""

from __future__ import annotations

from typing import Any, Protocol


class Answer(Protocol):
    """A DuckDB result or relation."""

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        ...


def first_row(answer: Answer) -> tuple[Any, ...] | None:
    """Return the first row of an answer, None when it has none.

    The answer is read to its end: DuckDB refuses other work on a connection with an unfinished result.
    """
    rows = answer.fetchall()
    return rows[0] if rows else None
