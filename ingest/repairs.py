"""What goes wrong in the text of one event, and how it is put right.

Each repair is a plain function from text to text that leaves alone what reads as a string. Only what has one
certain reading is here; an event that needs more is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_STRING = r'("[^"\\]*(?:\\.[^"\\]*)*")|'
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')
_VALUE = re.compile(r'(:\s*")(.*?)("(?=\s*(?:,\s*"[^"\\]*"\s*:|[}\]])))', re.DOTALL)
_FLAGS = re.IGNORECASE | re.DOTALL
SWALLOWED = re.compile(r'\\"(?:ph|cat|pid|tid|ts|dur|args)\\"\s*:')  # an event inside a string is no repair
_INNER = re.compile(r'\\.|"', re.DOTALL)


def _outside(pattern: str, new: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    """Replace ``pattern`` where it stands outside of strings."""
    bare, either = re.compile(pattern, _FLAGS), re.compile(_STRING + pattern, _FLAGS)

    def fix(text: str) -> str:
        if not bare.search(text):  # the usual answer, found without a look at every string
            return text
        return either.sub(lambda m: m.group() if m.group(1) is not None else new(m), text)

    return fix


def _fix_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda m: m.group() if len(m.group()) > 1 else "\\\\", text)


def _fix_quotes(text: str) -> str:
    def escape(m: re.Match[str]) -> str:
        return m[1] + _INNER.sub(lambda q: '\\"' if q.group() == '"' else q.group(), m[2]) + m[3]

    return _VALUE.sub(escape, text)


without_nonfinite = _outside(r"(?<=[:\[,\s])[-+]?(?:nan|inf(?:inity)?)(?:\(\w+\))?(?=\s*[,}\]])", lambda m: "null")
_decimal_points = _outside(r":\s*[-+]?\d+,\d+(?=\s*[,}])", lambda m: m.group().replace(",", "."))
_nulls = _outside(r":(?=\s*[,}])", lambda m: ":null")
_no_trailing = _outside(r",(?=\s*[}\]])", lambda m: "")

_ESCAPES = ("backslashes", _fix_escapes)
_QUOTES = ("unescaped quotes", _fix_quotes)
_VALUES = (
    ("non-finite numbers", without_nonfinite),
    ("decimal commas", _decimal_points),
    ("missing values", _nulls),
    ("trailing commas", _no_trailing),
)
# Tried in order on the text as it was; the next one when the event still does not read.
REPAIRS = (_VALUES, (_ESCAPES, *_VALUES), (_QUOTES, _ESCAPES, *_VALUES))
