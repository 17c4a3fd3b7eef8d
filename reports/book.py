"""Ask a run questions and keep, for every answer, what "show me" needs: definition, SQL and rows.

Questions are the files ``analyze/sql/<name>.sql``. Answers are lists of dicts with Python ints and None,
never pandas: a NULL must not turn a column of nanoseconds into floats.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from textwrap import dedent
from typing import Any

from ..analyze.query import query_text
from ..analyze.run import Run
from . import units

DEFINITIONS = "https://github.com/stepscope/stepscope/blob/main/docs/definitions.md"
ROWS_SHOWN = 200
_EXACT_IN_JAVASCRIPT = 2**53


@dataclass(frozen=True)
class Answer:
    """Rows of one question and the id under which the page shows where they come from."""

    id: str
    rows: list[dict[str, Any]]

    @property
    def one(self) -> dict[str, Any]:
        """The only row."""
        return self.rows[0]


class Book:
    """The questions asked of one run, and what answers them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.evidence: dict[str, dict[str, Any]] = {}
        self._answers: dict[str, Answer] = {}

    def ask(self, name: str, definition: str, anchor: str, **params: Any) -> Answer:
        """Ask the question ``analyze/sql/<name>.sql``.

        Args:
            name: The question's file name.
            definition: One line that says what the numbers mean.
            anchor: Where ``docs/definitions.md`` says more.
            params: Values of the query's ``$parameters``.
        """
        tail = "-".join(str(value) for value in params.values())
        return self.ask_sql(f"{name}-{tail}" if tail else name, query_text(name), definition, anchor, **params)

    def ask_sql(self, key: str, sql: str, definition: str, anchor: str, **params: Any) -> Answer:
        """Ask a question written down elsewhere, such as a finding's evidence."""
        if key in self._answers:
            return self._answers[key]
        columns, values = self._fetch(sql, params)
        self.evidence[key] = {
            "definition": units.printable(definition),
            "link": f"{DEFINITIONS}#{anchor}",
            "sql": _with_values(dedent(sql).strip(), params),
            "columns": columns,
            "rows": [[plain(value) for value in row] for row in values[:ROWS_SHOWN]],
            "total": len(values),
        }
        self._answers[key] = Answer(key, _dicts(columns, values))
        return self._answers[key]

    def rows(self, name: str, **params: Any) -> list[dict[str, Any]]:
        """Ask a question without keeping its answer as evidence."""
        return _dicts(*self._fetch(query_text(name), params))

    def _fetch(self, sql: str, params: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        relation = self.run.sql(sql, **params)
        return list(relation.columns), relation.fetchall()


def _dicts(columns: list[str], values: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in values]


def _with_values(sql: str, params: dict[str, Any]) -> str:
    """Write parameters into the SQL, so that what is copied from the page runs as it stands."""

    def literal(match: re.Match[str]) -> str:
        if match[1] not in params:
            return match[0]
        value = params[match[1]]
        if value is None:
            return "NULL"
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)

    return re.sub(r"\$([a-z_]+)", literal, sql)


def plain(value: Any) -> Any:
    """Return a value that JSON and JavaScript carry without loss: large integers become text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _EXACT_IN_JAVASCRIPT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return units.clip(units.printable(", ".join(str(plain(item)) for item in value)))
    return units.clip(units.printable(str(value)))
