"""The questions that live in ``analyze/sql``, and answers as rows."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import duckdb


def query_text(name: str) -> str:
    """Return the SQL text of ``analyze/sql/<name>.sql``."""
    return (files(__package__) / "sql" / f"{name}.sql").read_text()


def rows_of(answer: duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """Return all rows of an answer by column."""
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.fetchall()]
