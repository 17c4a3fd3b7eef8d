"""What goes wrong in the text of one event, and how it is put right.

Each repair is a plain function from text to text that leaves alone what reads as a string. Only what has one
certain reading is here; an event that needs more is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_STRING = r'("[^"\\]*(?:\\.[^"\\]*)*")'
_NONFINITE = re.compile(
    _STRING + r"|(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?:\(\w+\))?(?=\s*[,}\]])", re.IGNORECASE | re.DOTALL
)
_COMMA = re.compile(_STRING + r"|(:\s*[-+]?\d+),(\d+)(?=\s*[,}])", re.DOTALL)
_MISSING = re.compile(_STRING + r"|(:)(?=\s*[,}])", re.DOTALL)
_TRAILING = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_VALUE = re.compile(r'(:\s*")(.*?)("(?=\s*(?:,\s*"[^"\\]*"\s*:|[}\]])))', re.DOTALL)
SWALLOWED = re.compile(r'\\"(?:ph|cat|pid|tid|ts|dur|args)\\"\s*:')  # an event inside a string is no repair
_INNER = re.compile(r'\\.|"', re.DOTALL)


def _outside(pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    return lambda text: pattern.sub(lambda m: m.group() if m.group(1) is not None else new(m), text)


def _fix_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda m: m.group() if len(m.group()) > 1 else "\\\\", text)


def _fix_quotes(text: str) -> str:
    def escape(m: re.Match[str]) -> str:
        return m[1] + _INNER.sub(lambda q: '\\"' if q.group() == '"' else q.group(), m[2]) + m[3]

    return _VALUE.sub(escape, text)


without_nonfinite = _outside(_NONFINITE, lambda m: "null")  # of JSON text

_ESCAPES = ("backslashes", _fix_escapes)
_QUOTES = ("unescaped quotes", _fix_quotes)
_VALUES = (
    ("non-finite numbers", without_nonfinite),
    ("decimal commas", _outside(_COMMA, lambda m: f"{m[2]}.{m[3]}")),
    ("missing values", _outside(_MISSING, lambda m: m[2] + "null")),
    ("trailing commas", _outside(_TRAILING, lambda m: "")),
)
# Tried in order on the text as it was; the next one when the event still does not read.
REPAIRS = (_VALUES, (_ESCAPES, *_VALUES), (_QUOTES, _ESCAPES, *_VALUES))
