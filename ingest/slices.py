"""A stream of text -> pieces that end where an event ends.

A cut is a guess made cheaply: a comma before an object that reads as an event. Whoever parses a piece proves
the guess: a piece that is not a list of whole events fails to parse, is read event by event, and hands what
is left over to the next piece. So where the cuts fall changes nothing, only how fast it goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

_LOOK = 1 << 16  # how far ahead an event is looked at
_TRIES = 16
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args)"\s*:)')
_CLOSE = re.compile(rb"\}\s*(\])")
_BRACKET = re.compile(rb"(\])")
_decode = json.JSONDecoder(strict=False).raw_decode


def cut(chunks: Iterable[bytes], size: int, longest: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the text in order as (piece, is_last); pieces are about ``size`` bytes and end before an event.

    A piece grows beyond ``size`` while no event ends in it, at most to ``longest``.
    """
    parts: list[bytes] = []
    length, enough = 0, size
    for chunk in chunks:
        parts.append(chunk)
        length += len(chunk)
        while length > enough:
            text = b"".join(parts)
            at = _boundary(text, size) or (length if length > longest + size else None)
            if at is None:
                parts, enough = [text], length + _LOOK
                break
            yield text[:at], False
            parts = [text[at:]]
            length, enough = length - at, size
    yield b"".join(parts), True


def find_close(text: bytes, bare: bool, loose: bool = False) -> int | None:
    """Find the ``]`` that ends the events when ``text`` runs to the end of the document.

    What follows must complete the document: ``{"": []`` plus it parses, or nothing does for a bare array.
    Unless ``loose``, it follows a ``}``.
    """
    pattern = _BRACKET if loose else _CLOSE
    start = len(text)
    while start:
        end, start = start, max(0, start - _LOOK)
        for close in pattern.finditer(text, start, min(len(text), end + 256)):
            at = close.start(1)
            tail = text[at + 1 :]
            if not tail.strip() if bare else _completes(tail):
                return at
    return None


def _completes(tail: bytes) -> bool:
    try:
        json.loads(b'{"":[]' + tail)
    except (ValueError, RecursionError):
        return False
    return True


def _boundary(text: bytes, start: int) -> int | None:
    """Find where, at or after ``start``, a probable event begins."""
    first = None
    for tries, between in enumerate(_BETWEEN.finditer(text, max(0, start - 1))):
        at = between.end()
        if _is_event(text[at : at + _LOOK]):
            return at
        first = first or at
        if tries == _TRIES:
            return first
    return None


def _is_event(text: bytes) -> bool:
    try:
        return "ph" in _decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return False
