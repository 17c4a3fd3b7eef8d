"""Live files of the collector: a JSON object a line, the last one torn if a kill came in between.

The collector imports this inside a training job, where pyarrow must not be made to load pandas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.json as pj


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return an empty table (``Schema.empty_table`` loads pandas)."""
    return pa.Table.from_batches([], schema)


def read_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows in lines of JSON; a torn line, or one that is no row of ``schema``, is left out."""
    whole = lines.rpartition(b"\n")[0]
    if not whole:
        return no_rows(schema)
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return pj.read_json(pa.BufferReader(whole), parse_options=options).select(schema.names)
    except pa.ArrowException:
        return pa.Table.from_pylist(list(_readable(whole, schema)), schema=schema)


def _readable(lines: bytes, schema: pa.Schema) -> Iterator[dict[str, object]]:
    for line in lines.splitlines():
        with suppress(ValueError, AttributeError, TypeError, pa.ArrowException):
            row = {name: json.loads(line).get(name) for name in schema.names}
            pa.Table.from_pylist([row], schema=schema)
            if any(value is not None for value in row.values()):
                yield row
