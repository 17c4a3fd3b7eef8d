"""What a finding is, and the rules all of them share."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from ..run import Run

LEAST_SHARE = 0.01  # below 1 % of the step there is no finding
EVIDENCE_ROWS = 20

FINDINGS = pa.schema(
    {
        "finding_id": pa.string(),
        "kind": pa.string(),
        "severity": pa.string(),
        "rank": pa.int64(),
        "step_scope": pa.string(),
        "lost_ns_per_step": pa.int64(),
        "share": pa.float64(),
        "cause": pa.string(),
        "confidence": pa.string(),
        "sentence": pa.string(),
        "advice": pa.string(),
        "evidence_sql": pa.string(),
        "evidence_rows": pa.string(),  # JSON array of row objects, the first EVIDENCE_ROWS
    }
)


@dataclass(frozen=True)
class Finding:
    """One finding. ``lost_ns_per_step`` is what a change could win at most; None where that is unknown."""

    kind: str
    sentence: str
    advice: str
    evidence_sql: str
    evidence_rows: str
    confidence: str  # high, medium, low
    severity: str = "info"  # high, medium, low, info
    lost_ns_per_step: int | None = None
    share: float | None = None
    cause: str | None = (
        None  # in one word, where it is known and another cause of the same kind asks for another change
    )
    rank: int | None = None  # None: it concerns the whole job
    step_scope: str = "complete profiled steps"
    explains: str = ""  # the kind of finding that tells the same loss from within the rank


def severity(share: float) -> str:
    """Return the severity of losing a share of the step: high from 15 %, medium from 5 %, else low."""
    return "high" if share >= 0.15 else "medium" if share >= 0.05 else "low"


def evidence(run: Run, sql: str) -> tuple[str, str]:
    """Return the SQL as it stands alone and the first of its rows as JSON."""
    query = " ".join(line for line in (line.strip() for line in sql.splitlines()) if line and not line.startswith("--"))
    relation = run.con.sql(query).limit(EVIDENCE_ROWS)
    rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    return query, json.dumps(rows, default=str)


def ms(ns: float) -> str:
    """Write a duration for a sentence: three significant digits, in the largest unit that the rounded value reaches."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        value = ns / size
        if abs(value) >= 0.9995:  # 999.6 µs reads as 1.00 ms, not as 1000 µs
            return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"


def size(n: float) -> str:
    """Write bytes for a sentence: ``1.50 GiB``, ``200 MiB``; 1 GiB is 2^30 bytes."""
    for unit, one in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(n) >= one:
            value = n / one
            whole = value == int(value) and unit != "GiB"
            return f"{value:.{0 if whole else max(0, 3 - len(str(int(abs(value)))))}f} {unit}"
    return f"{n:.0f} bytes"


def percent(share: float) -> str:
    """Write a share for a sentence."""
    return f"{share * 100:.1f} %"


def findings_table(found: list[Finding]) -> pa.Table:
    """Return findings as the table ``findings``, ids stable for the same kind, rank and place."""
    rows: list[dict[str, Any]] = []
    for one in found:
        name = one.kind if one.rank is None else f"{one.kind}-rank{one.rank}"
        rows.append({"finding_id": name, **asdict(one)})
    return pa.Table.from_pylist(rows, schema=FINDINGS)
