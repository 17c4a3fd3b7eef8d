"""One trace file -> the table ``raw``, whatever state the file is in.

Pieces of text are parsed by DuckDB, several at once (the fast path). A piece that fails is read event by
event (``salvage``) and goes the same way afterwards, so both paths share one reading of every value.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any

import duckdb

from .identity import whole
from .intake import Intake, batches
from .salvage import Interleaved
from .schema import FARTHEST_NS
from .slices import cut
from .text import LIMITS, Limits, Refused, TraceText
from .tidy import VIEW, drop_empty, null_nonfinite, pair_begin_end

__all__ = ["Limits", "Loaded", "Problem", "load"]

# Categories that Kineto and the profiler's exporters write, of every vintage, in lower case.
_KINETO = frozenset(
    [
        "cpu_op",
        "operator",
        "user_annotation",
        "gpu_user_annotation",
        "kernel",
        "gpu_memcpy",
        "memcpy",
        "gpu_memset",
        "memset",
        "cuda_runtime",
        "cuda_driver",
        "runtime",
        "cuda_sync",
        "ac2g",
        "async",
        "async_cpu_to_gpu",
        "async_gpu",
        "fwdbwd",
        "forward_backward",
        "overhead",
        "trace",
        "cpu_instant_event",
        "python_function",
        "xpu_runtime",
        "xpu_driver",
        "glow_runtime",
        "hpu_op",
        "mtia_runtime",
        "mtia_ccp_events",
        "mtia_insight",
        "privateuse1_runtime",
        "privateuse1_driver",
        "cuda_profiler_range",
        "collective_comm",
    ]
)

_CREATE = """
CREATE OR REPLACE TABLE raw_rows
    (ph VARCHAR, cat VARCHAR, name VARCHAR, pid VARCHAR, tid VARCHAR, ts_ns BIGINT, dur_ns BIGINT, args JSON)
"""


@dataclass(frozen=True)
class Problem:
    """Something about the file that a reader of the numbers should know: a row of ``quality``."""

    rule: str
    count: int
    sentence: str


@dataclass
class Loaded:
    """What one file held besides its events.

    Attributes:
        sha256: Of the file's own bytes; '' when it could not be read.
        bytes: Size of the file.
        format: ``kineto``, ``chrome`` or ``unknown``.
        header: Everything around the event arrays.
        base_ns: ``baseTimeNanoseconds``; 0 when this vintage has none; None when a damaged file has lost it.
        verdict: ``ok``, ``repaired``, ``truncated`` or ``quarantined``.
        reason: Why, in words; '' only for ``ok``.
        detail: More about it.
        events: Rows of ``raw``.
        events_repaired: Events of which something was altered.
        events_dropped: Elements of the event arrays that were left out.
        problems: Rows for ``quality``.
        no_trace: Whether it is whole JSON that never meant to be a trace.
    """

    sha256: str = ""
    bytes: int = 0
    format: str = "unknown"
    header: dict[str, Any] = field(default_factory=dict)
    base_ns: int | None = None
    verdict: str = "ok"
    reason: str = ""
    detail: str = ""
    events: int = 0
    events_repaired: int = 0
    events_dropped: int = 0
    problems: list[Problem] = field(default_factory=list)
    no_trace: bool = False


def load(source: str, con: duckdb.DuckDBPyConnection, *, generic: bool = False, limits: Limits = LIMITS) -> Loaded:
    """Read one file into the table ``raw`` of ``con``; see ``Loaded`` for what is returned.

    ``raw(event_id BIGINT, ph, cat, name, pid, tid VARCHAR, ts_ns, dur_ns BIGINT, args JSON)`` holds every
    event of every ``traceEvents`` array in file order (it is a view of ``raw_rows``). Times are the file's
    own, in ns, without the base; NULL when absent or unusable. A file that cannot be used is quarantined:
    ``raw`` is empty and the reason is in words. Must not run inside a transaction.

    Args:
        source: Path or fsspec URI.
        con: Where the tables are made; its threads and memory limit apply.
        generic: Take Chrome traces that are not Kineto's, pairing B and E events.
        limits: What a source may ask of the machine.
    """
    con.execute("SET preserve_insertion_order = true")
    con.execute("DROP VIEW IF EXISTS raw")
    con.execute(_CREATE)
    con.execute(VIEW)
    loaded = Loaded()
    try:
        text = TraceText(source, limits)
    except OSError as error:
        return _quarantine(loaded, con, f"cannot be read ({error.strerror or error})")
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        intake = Intake(con, folder, limits)
        refused = _read(text, intake, limits)
        try:
            text.drain()
        except OSError as error:
            refused = refused or f"cannot be read to the end ({error})"
    loaded.sha256, loaded.bytes = text.sha256, text.size
    if refused:
        return _quarantine(loaded, con, refused)
    return _judge(loaded, text, intake, con, generic)


def _read(text: TraceText, intake: Intake, limits: Limits) -> str:
    """Read all of it; return why it was given up, or ''."""
    ahead = batches(cut(text.chunks(), limits.slice_bytes, limits.event_bytes))
    try:
        for batch in ahead:
            intake.take(batch)
    except Refused as refused:
        return str(refused)
    except OSError as error:
        return f"cannot be read ({error})"
    except Interleaved:
        return "holds two documents written into each other: which event is whose cannot be told"
    finally:
        ahead.close()
    return ""


def _judge(loaded: Loaded, text: TraceText, intake: Intake, con: duckdb.DuckDBPyConnection, generic: bool) -> Loaded:
    """Tidy the rows, and say what state the file is in."""
    documents = intake.documents
    headers, damaged = zip(*(d.parse() for d in documents), strict=True)
    for header in reversed(headers):
        loaded.header |= header
    if dropped := drop_empty(con):
        intake.dropped["empty"] += dropped
    if nonfinite := null_nonfinite(con):
        intake.repaired["non-finite numbers"] += nonfinite
        intake.events_repaired += nonfinite
    loaded.events_repaired = intake.events_repaired
    loaded.events_dropped = intake.dropped.total()
    loaded.format = _format(con, loaded.header)
    cut_off = text.cut or intake.inside or not all(d.ended for d in documents)
    loaded.base_ns = _base(loaded.header, cut_off or any(damaged), con)

    with_events = [header for header, d in zip(headers, documents, strict=True) if d.arrays]
    if reason := _unusable(loaded, intake, con, cut_off, generic) or _conflict(with_events):
        return _quarantine(loaded, con, reason)
    if loaded.format == "chrome":
        _pair(loaded, con)
    ((loaded.events,),) = con.execute("SELECT count(*) FROM raw_rows").fetchall()
    _tell(loaded, text, intake, cut_off, any(damaged))
    return loaded


def _tell(loaded: Loaded, text: TraceText, intake: Intake, cut_off: bool, damaged: bool) -> None:
    """Fill in verdict, reason, detail and problems."""
    said, problems = [], loaded.problems
    if cut_off:
        said.append("the end is missing" + (f" ({text.damage})" if text.damage else ""))
        problems.append(Problem("truncated", 1, f"The file is cut, {said[0]}: every whole event was kept."))
    for what, count in sorted(intake.repaired.items()):
        said.append(f"{_events(count)} had {what}")
        problems.append(Problem("events_repaired", count, f"{_events(count)} had {what}, put right."))
    for what, count in sorted(intake.dropped.items()):
        said.append(f"{_events(count)} dropped ({what})")
        problems.append(Problem("events_dropped", count, f"{_events(count)} left out: {what}."))
    around = [] if cut_off or not text.damage else [text.damage]
    if damaged and not cut_off:
        around.append("the text around the events is damaged, what could be read of it was taken")
    if intake.trailing:
        around.append(f"{intake.trailing:,} bytes after the end were ignored")
    if around:
        said += around
        problems.append(Problem("file_damaged", len(around), f"Besides its events: {'; '.join(around)}."))
    if (n := len(intake.documents)) > 1:
        sentence = f"The file holds {n} documents one after the other; the events of all were read."
        problems.append(Problem("several_documents", n, sentence))
    if loaded.base_ns is None:
        sentence = "The file lost its baseTimeNanoseconds: on its own, its times are relative."
        problems.append(Problem("base_time_lost", 1, sentence))
    if said:
        loaded.verdict = "truncated" if cut_off else "repaired"
    loaded.reason = "; ".join(said)
    loaded.detail = " ".join(problem.sentence for problem in problems)


def _events(count: int) -> str:
    return f"{count:,} event" if count == 1 else f"{count:,} events"


def _quarantine(loaded: Loaded, con: duckdb.DuckDBPyConnection, reason: str) -> Loaded:
    con.execute("DELETE FROM raw_rows")
    loaded.verdict, loaded.reason, loaded.events = "quarantined", reason, 0
    loaded.events_repaired = 0
    return loaded


def _format(con: duckdb.DuckDBPyConnection, header: dict[str, Any]) -> str:
    categories = {c for (c,) in con.execute("SELECT DISTINCT lower(cat) FROM raw_rows").fetchall()}
    if categories & _KINETO or ("schemaVersion" in header and "deviceProperties" in header):
        return "kineto"
    ((events,),) = con.execute("SELECT count(ph) FROM raw_rows").fetchall()
    return "chrome" if events else "unknown"


def _unusable(loaded: Loaded, intake: Intake, con: duckdb.DuckDBPyConnection, cut_off: bool, generic: bool) -> str:
    """Return why no event of the file is used, or ''."""
    ((events,),) = con.execute("SELECT count(ph) FROM raw_rows").fetchall()
    if not events:
        if not any(d.text.strip() for d in intake.documents):
            return "is empty"
        if cut_off:
            return "is cut before its first whole event"
        if not any(d.arrays for d in intake.documents) or intake.documents[0].bare:
            loaded.no_trace = True
            return "is JSON without trace events"
        return "has a header but no events"
    if loaded.format == "chrome" and not generic:
        return "is a Chrome trace without any of Kineto's categories; read it anyway with --generic"
    return ""


def _conflict(headers: list[dict[str, Any]]) -> str:
    """Return why documents one after the other in one file cannot be one capture, or ''."""
    for key in ("distributedInfo", "baseTimeNanoseconds"):
        if len({repr(header.get(key)) for header in headers}) > 1:
            return f"holds several documents that differ in {key}; split it into one file each"
    return ""


def _base(header: dict[str, Any], damaged: bool, con: duckdb.DuckDBPyConnection) -> int | None:
    """Return the base of the file's times in ns.

    Vintages without ``baseTimeNanoseconds`` write times since the epoch, so their base is 0. A damaged file
    may have lost it: its times tell, for those relative to a base stay below some months and the others are
    beyond 2001. So do those of a file whose base is no moment (negative, or centuries away).
    """
    told = header.get("baseTimeNanoseconds")
    base = whole(told)
    if base is not None and base < 2 * FARTHEST_NS:
        return base
    if told is None and not damaged:
        return 0
    ((latest,),) = con.execute("SELECT max(ts_ns) FROM raw_rows").fetchall()
    return 0 if latest is not None and latest >= 10**18 else None


def _pair(loaded: Loaded, con: duckdb.DuckDBPyConnection) -> None:
    pairs, alone = pair_begin_end(con)
    if alone:
        sentence = f"{_events(alone)} of kind B or E without a partner, next to {pairs:,} pairs, have no duration."
        loaded.problems.append(Problem("unpaired", alone, sentence))
