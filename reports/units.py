"""Numbers as people read them. What is unknown is said to be unknown; the exact value goes into a title."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "unknown"

_TIMES = (
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "µs"),
)
_SIZES = tuple((1 << 10 * power, unit) for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")))
_RATES = ((10**12, "TB/s"), (10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s"))


def _scaled(value: float, steps: tuple[tuple[int, str], ...], smallest: str) -> str:
    """Return three significant digits in the largest unit that the rounded value reaches."""
    if value == 0:
        return f"0 {smallest}"
    for size, unit in steps:
        # 999.6 µs reads as 1 ms, not as 1000 µs.
        if abs(value) >= size * 0.9995:
            return f"{_digits(value / size)} {unit}"
    return f"{_digits(value) if isinstance(value, float) else value} {smallest}"


def _digits(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"


def duration(ns: float | None) -> str:
    """Return nanoseconds with a humane unit: ``59.3 ms``."""
    return UNKNOWN if ns is None else _scaled(ns, _TIMES, "ns")


def size(n: float | None) -> str:
    """Return bytes with a binary unit: ``1.5 GiB``, 1 GiB being 2^30 bytes."""
    return UNKNOWN if n is None else _scaled(n, _SIZES, "B")


def rate(n: float | None) -> str:
    """Return bytes per second with a decimal unit, as bandwidths are quoted: ``187.9 GB/s``."""
    return UNKNOWN if n is None else _scaled(n, _RATES, "B/s")


def share(x: float | None) -> str:
    """Return a share 0..1 in percent with one decimal."""
    if x is None:
        return UNKNOWN
    return f"{100 * x:.1f} %" if x == 0 or abs(x) >= 0.0005 else "<0.1 %"


def confidence(value: str | float | None) -> str:
    """Return how sure a finding is: a word as it stands, a probability in percent."""
    return share(value) if isinstance(value, float) else text(value)


def count(n: float | None) -> str:
    """Return a count with thousands separated."""
    if n is None:
        return UNKNOWN
    return f"{n:,}" if isinstance(n, int) else f"{n:,.1f}"


def text(value: Any) -> str:
    """Return any value as one line of text in which control characters are visible and harmless."""
    return UNKNOWN if value is None else printable(str(value))


def moment(ns: int | None) -> str:
    """Return nanoseconds since the epoch as a UTC date and time."""
    if ns is None:
        return UNKNOWN
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def printable(value: str) -> str:
    """Replace control characters: a name out of a trace must not steer a terminal or vanish from a page."""
    if value.isprintable():
        return value
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in value)


def clip(value: str, length: int = 300) -> str:
    """Return ``value`` cut to ``length`` characters; the cut is marked and the full length told."""
    return value if len(value) <= length else f"{value[:length]}… ({len(value):,} characters)"


def exact(value: Any, unit: str) -> str:
    """Return the value as it was measured, for a title."""
    if value is None or isinstance(value, str) or not unit:
        return ""
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"
    return f"{number} {unit}"


# What a column of a table or a number can be: how it reads, and the unit of its exact value.
FORMATS: dict[str, tuple[Callable[[Any], str], str]] = {
    "time": (duration, "ns"),
    "size": (size, "bytes"),
    "rate": (rate, "bytes/s"),
    "share": (share, ""),
    "count": (count, ""),
    "moment": (moment, "ns since the epoch"),
    "text": (text, ""),
    "name": (text, ""),
    "prose": (text, ""),
    "show": (str, ""),
}
