"""The answer for machines: a versioned envelope of JSON values. Integers stay integers, unknown is null."""

from __future__ import annotations

import json
from typing import Any

from ..analyze.run import Run
from .book import Book
from .headline import findings, headline, mean_ledger, records, subject

SCHEMA = "stepscope/analysis/1"


def envelope(run: Run) -> dict[str, Any]:
    """Return verdict, coverage, findings, invariants, headline numbers and mean ledger of ``run``.

    Times are nanoseconds, shares 0..1. ``json.dumps(envelope(run), allow_nan=False)`` never fails.
    """
    book = Book(run)
    return {
        "schema": SCHEMA,
        "run": subject(run),
        "verdict": run.verdict(),
        "coverage": run.coverage(),
        "headline": headline(book).one,
        "findings": [{**row, "evidence_rows": json.loads(row["evidence_rows"] or "[]")} for row in findings(run)],
        "ledger": mean_ledger(book).rows,
        "ledger_by_rank": book.rows("ledger_ranks"),
        "invariants": records(run.invariants()),
    }
