"""The text around the event arrays: where one begins, whether the document ends, what the header says."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[{}\[\]]', re.DOTALL)
_ARRAY = re.compile(rb"\s*:\s*\[")
_ANY_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[(?=\s*(?:\{\s*"|\]))')
EVENT = re.compile(rb'\{\s*"ph"\s*:\s*"')

# What is looked for one by one when the header as a whole does not parse.
_WANTED = [
    "schemaVersion",
    "distributedInfo",
    "deviceProperties",
    "baseTimeNanoseconds",
    "displayTimeUnit",
    "host_name",
    "hostname",
    "traceName",
    "trace_id",
    "stepscope",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
    "cupti_version",
    "cuda_runtime_version",
    "cuda_driver_version",
    "roctracer_version",
    "hip_runtime_version",
    "hip_driver_version",
]


class Document:
    """One JSON document, seen from outside of its event arrays, each of which is kept as ``[]``."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.arrays = 0
        self.complete = False
        self._after = 0  # in `text`, the end of the last array that was read

    @property
    def bare(self) -> bool:
        """Whether the document is the event array itself."""
        return self.text.lstrip()[:1] == b"["

    @property
    def alien(self) -> bool:
        """Whether the text cannot be JSON that holds events."""
        return bool(self.text.strip()) and self.text.lstrip()[:1] not in (b"{", b"[")

    def feed(self, data: bytes) -> int | None:
        """Take text from outside an array.

        Returns where ``data`` stops being this document's outside: after the ``[`` that opens an events
        array (``complete`` is false) or after the document's end (``complete`` is true); None when all of it
        was taken.
        """
        before = len(self.text)
        self.text += data
        at = self._scan()
        if at is None or (self.complete and not self.arrays):
            opened = _ANY_ARRAY.search(self.text, self._after)
            if opened:  # damage hid the exact place, or it is nested deeper
                at, self.complete = opened.end(), False
        if at is None:
            return None
        del self.text[at:]
        return at - before

    def close_array(self) -> None:
        """Note that the array opened last has ended."""
        self.text += b"]"
        self._after = len(self.text)
        self.arrays += 1
        self.complete = self.bare

    @property
    def ended(self) -> bool:
        """Whether the end of the text is there; of a damaged header only the last bracket can tell."""
        if self.complete:
            return True
        return self.text.rstrip()[-1:] == b"}" and self.parse()[1] and self.arrays > 0

    @property
    def holds_events(self) -> bool:
        """Whether events stand outside of the arrays: the mark of two documents written into each other."""
        return self.arrays > 0 and bool(EVENT.search(self.text))

    def _scan(self) -> int | None:
        depth = 0
        for token in _TOKEN.finditer(self.text):
            char = self.text[token.start()]
            if char in b"{[":
                depth += 1
                if depth == 1 and char == 0x5B and token.end() > self._after:
                    return token.end()
            elif char in b"}]":
                depth -= 1
                if depth <= 0:
                    self.complete = True
                    return token.end()
            elif depth == 1 and token.group() == b'"traceEvents"':
                array = _ARRAY.match(self.text, token.end())
                if array and array.end() > self._after:
                    return array.end()
        return None

    def parse(self) -> tuple[dict[str, Any], bool]:
        """Return the header without its event arrays, and whether it had to be pieced together."""
        text = self.text.decode("utf-8", "replace")
        damaged = "�" in text
        try:
            header = json.loads(text, strict=False, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            header, damaged = _pieces(text), True
        if not isinstance(header, dict):
            return {}, damaged
        header.pop("traceEvents", None)
        return header, damaged


def _pieces(text: str) -> dict[str, Any]:
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
    header = {}
    for key in _WANTED:
        for found in re.finditer(rf'"{key}"\s*:\s*', text):
            try:
                value, end = decoder.raw_decode(text, found.end())
            except (ValueError, RecursionError):
                continue
            if end < len(text):  # a number at the very end may have lost digits
                header[key] = value
                break
    return header
