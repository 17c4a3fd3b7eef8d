"""Event by event through text that does not parse as a whole.

Every event that reads as JSON is kept as it stands. One that does not is repaired where the right reading is
certain from its form (a bare ``inf`` becomes null, ``"dur": 1,5`` becomes 1.5, a quote inside a name is
escaped), else dropped and counted. Nothing is invented: an event whose end is missing is never completed.

Times are rewritten as decimal text of microseconds with three decimals: exact, and what the fast path reads.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from .repairs import REPAIRS, SWALLOWED
from .slices import find_close

KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")

_REPAIRABLE = 1 << 20  # longest damaged event that is worth it
_TRIES = 4  # how many places are tried as the end of a damaged event
_KEY = r'"(?:ph|name|cat|pid|tid|ts|dur|id|bp|s|args)"\s*:'
_NEXT = re.compile(rf"\}}\s*,?\s*(?=\{{\s*{_KEY})")
_LAST = re.compile(r'\}(?=\s*,?\s*\]\s*(?:,\s*"|\}|\Z)|\s*\Z)')
_FRESH = re.compile(r',\s*(?=\{\s*"(?:ph"\s*:|name"\s*:\s*"[^"]*"\s*,\s*"ph"\s*:))')
_PARTIAL = re.compile(r"[-+.\w\\]{0,9}\s*\Z")  # a token that the end of the text cut in two
_SKIP = re.compile(r"[\s,]*")
_HEADER = re.compile(r'"(?:traceEvents"\s*:\s*\[|schemaVersion"\s*:|deviceProperties"\s*:\s*\[)')
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXACT = Context(prec=60, rounding=ROUND_HALF_UP)


class Interleaved(Exception):
    """A document's header stands inside another document's open events array: two writers, one file."""


@dataclass
class Scan:
    """What was found in a stretch of an events array.

    Attributes:
        clean: The kept events, each the text of a JSON object with the keys of ``KEYS``.
        rest: Bytes not used: an event whose end is not in sight, or what follows the array's end.
        closed: Whether the array's ``]`` was found; ``rest`` begins after it.
        repaired: Events altered, by what was wrong with them.
        dropped: Elements left out, by reason.
    """

    clean: list[bytes] = field(default_factory=list)
    rest: bytes = b""
    closed: bool = False
    repaired: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    events_repaired: int = 0


def scan(data: bytes, final: bool, bare: bool = False) -> Scan:
    """Read events from the start of ``data``, which is just inside an events array or at a later event.

    Args:
        data: The text.
        final: Whether no more text follows; otherwise what cannot be decided yet is left in ``rest``.
        bare: Whether the array is the whole document.

    Raises:
        Interleaved: Two documents were written into each other.
    """
    text = _Text(data.decode("utf-8", "surrogateescape"))
    found, reader, at = Scan(), _Reader(), 0
    while True:
        at = _SKIP.match(text, at).end()  # type: ignore[union-attr]
        if at == len(text):
            return found
        if text[at] == "]":
            found.closed, found.rest = True, _bytes(text[at + 1 :])
            return found
        end = reader.read(text, at)
        if end is not None:
            _keep(found, reader)
            at = end
            continue
        ends, resume = _ends(text, at)
        if not final and (reader.at_end or len(ends) < _TRIES):
            found.rest = _bytes(text[at:])
            return found
        cut = reader.at_end
        end = next((e for e in ends if reader.repair(text[at:e])), None) if text[at] == "{" else None
        if end is not None:
            _keep(found, reader)
            at = end
            continue
        if resume is None or cut:  # nothing more to read here: is it the array's end or the text's?
            close = None if cut else find_close(data := _bytes(text[at:]), bare, loose=True)
            _refuse_header(text[at:] if close is None else data[:close].decode("utf-8", "replace"))
            found.dropped["cut off" if close is None else "unreadable"] += 1
            if close is not None:
                found.closed, found.rest = True, data[close + 1 :]
            return found
        _refuse_header(text[at:resume])
        found.dropped["unreadable"] += 1
        at = resume


def _keep(found: Scan, reader: _Reader) -> None:
    event = reader.value
    if not isinstance(event, dict):
        found.dropped["not an object"] += 1
        return
    if "traceEvents" in event or "schemaVersion" in event:
        raise Interleaved
    clean = _render(event, reader.wrong)
    if clean is None:
        found.dropped["empty"] += 1
        return
    found.clean.append(clean)
    if reader.wrong:
        found.events_repaired += 1
        found.repaired.update(reader.wrong)


def _refuse_header(damaged: str) -> None:
    if _HEADER.search(damaged):
        raise Interleaved


def _ends(text: str, at: int) -> tuple[list[int], int | None]:
    """Return the first few places where the object at ``at`` may end, and where the next one starts."""
    nexts = [m for m, _ in zip(_NEXT.finditer(text, at), range(_TRIES), strict=False)]
    within = nexts[-1].end() if len(nexts) == _TRIES else len(text)
    ends = {m.start() + 1 for m in nexts}
    ends.update(m.start() + 1 for m, _ in zip(_LAST.finditer(text, at, within), range(_TRIES), strict=False))
    starts = [m.end() for m in (*nexts[:1], _FRESH.search(text, at, within)) if m]
    return sorted(ends)[:_TRIES], min(starts, default=None)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _Text(str):
    """Text whose lines nobody counts: json does for each error, from the start, for a message unread here."""

    __slots__ = ()

    def count(self, *_: Any) -> int:
        return 0

    def rfind(self, *_: Any) -> int:
        return 0


class _Reader:
    """Reads one value; ``value`` holds it and ``wrong`` what had to be put right."""

    def __init__(self) -> None:
        self.value: Any = None
        self.wrong: set[str] = set()
        self.at_end = False
        self._nonfinite = self._double = False
        options: dict[str, Any] = {
            "parse_float": Decimal,
            "parse_constant": self._constant,
            "object_pairs_hook": self._pairs,
        }
        self._strict = json.JSONDecoder(**options)
        self._lenient = json.JSONDecoder(strict=False, **options)

    def _constant(self, _: str) -> None:
        self._nonfinite = True

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        self._double = len(value) != len(pairs)  # the outermost object is built last: its answer stays
        return value

    def read(self, text: str, at: int) -> int | None:
        """Decode the value at ``at`` and return its end, or None; then ``at_end`` tells that text ran out."""
        self.wrong, self.at_end = set(), False
        end = self._decode(self._strict, text, at)
        if end is None and not self.at_end:
            end = self._decode(self._lenient, text, at)
            if end is not None:
                self.wrong.add("control characters")
        return end

    def repair(self, chunk: str) -> bool:
        """Try to read the whole of ``chunk`` as one object after putting right what is known to go wrong."""
        if len(chunk) > _REPAIRABLE or _HEADER.search(chunk):
            return False
        for fixes in REPAIRS:
            fixed, wrong = chunk, set()
            for name, fix in fixes:
                before, fixed = fixed, fix(fixed)
                if fixed != before:
                    wrong.add(name)
            self.wrong = wrong
            if not wrong:
                continue
            if self._decode(self._lenient, fixed, 0) != len(fixed) or not isinstance(self.value, dict):
                continue
            if not self._double and not SWALLOWED.search(fixed):
                return True
        return False

    def _decode(self, decoder: json.JSONDecoder, text: str, at: int) -> int | None:
        self._nonfinite = self._double = False
        try:
            self.value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            self.at_end = error.msg.startswith("Unterminated string") or bool(_PARTIAL.match(text, error.pos))
            return None
        except (ValueError, RecursionError, InvalidOperation):  # digits or nesting without end
            self.at_end = False
            return None
        if self._nonfinite:
            self.wrong.add("non-finite numbers")
        if self._double:
            self.wrong.add("duplicate keys")
        return end


def _render(event: dict[str, Any], wrong: set[str]) -> bytes | None:
    """Write the event so that the fast path takes it; None when it holds nothing of use."""
    kept = {key: event[key] for key in KEYS if event.get(key) is not None}
    if not kept:
        return None
    for key in ("ts", "dur"):
        if key in kept:
            kept[key] = _microseconds(kept[key])
            if kept[key] is None:
                wrong.add("unusable times")

    def number(value: Decimal) -> float | None:
        real = float(value)
        if real - real != 0:
            wrong.add("non-finite numbers")
            return None
        return real

    text = json.dumps(kept, ensure_ascii=False, default=number)
    if _SURROGATE.search(text):
        wrong.add("bad UTF-8")
        text = _bytes_lossy(text)
    return text.encode()


def _bytes_lossy(text: str) -> str:
    """Put U+FFFD where bytes were not UTF-8 or an escape was half a character."""
    return _SURROGATE.sub("\ufffd", text)


def _microseconds(value: Any) -> str | None:
    """Return µs as decimal text, exact to the ns (finer digits round half away); None if unusable."""
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str)):
        return None
    try:
        exact = Decimal(value.strip()) if isinstance(value, str) else Decimal(value)
        ns = exact.scaleb(3, _EXACT).quantize(Decimal(1), context=_EXACT)
    except (InvalidOperation, ValueError):
        return None
    if not -(2**63) <= ns < 2**63:
        return None
    return f"{ns.scaleb(-3, _EXACT):f}"
