"""A run, opened: ask it in SQL, read its findings, write its report."""

from __future__ import annotations

import os
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa

from ..ingest.errors import StepscopeError
from ..ingest.resolve import coverage
from ..ingest.writer import read_manifest
from .cross import match_ranks
from .findings import Finding, find_all, findings_table, verdict
from .invariants import INVARIANTS_TABLE, check
from .quality import run_quality
from .query import query_text
from .views import open_tables

if TYPE_CHECKING:
    import pandas as pd  # loaded by who asks for a frame: an ingest stays 40 MB smaller without


class Run:
    """A run's tables behind one DuckDB connection.

    Args:
        path: The run directory.

    Raises:
        StepscopeError: The directory is no run, or one of a newer schema.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        try:
            self._tables = open_tables(self.path)
        except (duckdb.Error, pa.ArrowException, OSError, OverflowError) as error:
            why = str(error).strip().splitlines()[0]
            raise StepscopeError(
                f"A file of the run {self.path} is damaged ({why}). Remove that file, or ingest the traces into a new run."
            ) from error
        self.con: duckdb.DuckDBPyConnection = self._tables.con
        self.damaged = self._tables.damaged  # a sentence for every file of the run that cannot be read
        self._judged = False
        self._ambiguous: list[int] | None = None  # the ranks that fit at more than one place, once ranks are matched

    def sql(self, query: str, **parameters: Any) -> duckdb.DuckDBPyRelation:
        """Return the answer to a DuckDB query over the run's tables, with ``$name`` parameters.

        Raises:
            StepscopeError: DuckDB refuses the query; the sentence is DuckDB's own.
        """
        if re.search(
            r"\b(collectives|blame|causes|comm_split|fits|link_times|ledger|ranks|matched)\b", query, re.IGNORECASE
        ):
            self._match()
        if re.search(r"\b(findings|quality|invariants)\b", query, re.IGNORECASE):
            self._judge()
        try:
            return self.con.sql(query, params=parameters or None)
        except duckdb.Error as error:
            raise StepscopeError(f"That query does not run: {str(error).strip()}", exit_code=2) from error

    def query(self, name: str, **parameters: Any) -> duckdb.DuckDBPyRelation:
        """Return the answer to the query ``analyze/sql/<name>.sql``."""
        return self.sql(query_text(name), **parameters)

    def findings(self) -> pd.DataFrame:
        """Return the findings, the largest recoverable time first."""
        return self.sql("from findings").df()

    def invariants(self) -> pd.DataFrame:
        """Return the arithmetic checks: name, holds, checked, broken, worst_ns, sentence, sql."""
        return self.sql("from invariants").df()

    def coverage(self) -> str:
        """Say which ranks of the job are there, as in ``61 of 64 ranks; missing 7, 12, 40``."""
        sessions = self._tables.sessions
        known = {one["rank"] for one in sessions}
        world = max((one["world_size"] for one in sessions if one.get("world_size")), default=None)
        return coverage(self._tables.resolved, known, world)

    def verdict(self) -> str:
        """Return the answer in one sentence."""
        return verdict(self._findings)

    def close(self) -> None:
        """Close the connection."""
        self.con.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.coverage()})"

    @cached_property
    def _findings(self) -> list[Finding]:
        self._match()
        return find_all(self)

    def _match(self) -> list[int]:
        """Match the collectives of the ranks, once."""
        if self._ambiguous is None:
            self._ambiguous = match_ranks(self.con)
        return self._ambiguous

    def _judge(self) -> None:
        """Make the tables that take an analysis: invariants, quality, findings."""
        if self._judged:
            return
        self._judged = True
        ambiguous = self._match()
        self.con.register("invariants", pa.Table.from_pylist(check(self.con), schema=INVARIANTS_TABLE))
        self.con.register("run_quality", run_quality(self.con, self._tables.resolved, ambiguous, self.damaged))
        self.con.execute("create view quality as select * from capture_quality union all select * from run_quality")
        self.con.register("findings_rows", findings_table(self._findings))
        self.con.execute("create table findings as from findings_rows")
