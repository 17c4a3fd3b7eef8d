"""The process groups that a trace's header tells of, and what they are for."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

from ..ingest.names import names
from ..ingest.schema import GROUPS


def groups_table(header: dict[str, Any], capture_id: int) -> pa.Table:
    """Return the groups of ``distributedInfo.pg_config``, a row each."""
    distributed = header.get("distributedInfo")
    config = distributed.get("pg_config") if isinstance(distributed, dict) else None
    rows = [_group(one) for one in config if isinstance(one, dict)] if isinstance(config, list) else []
    told = {row["pg"]: {"capture_id": capture_id, **row} for row in rows if row["pg"] is not None}
    return pa.Table.from_pylist(list(told.values()), schema=GROUPS)


def _group(one: dict[str, Any]) -> dict[str, Any]:
    name, description, size, members = (one.get(key) for key in ("pg_name", "pg_desc", "pg_size", "ranks"))
    if not (isinstance(members, list) and members and all(isinstance(rank, int) for rank in members)):
        members = None
    if not isinstance(size, int) or size < 1:
        size = None if members is None else len(members)
    return {
        "pg": None if name is None else str(name),
        "description": description if isinstance(description, str) else None,
        "role": role(description) if isinstance(description, str) else None,
        "size": size,
        "members": None if members is None else json.dumps(sorted(members)),
    }


def role(description: str) -> str | None:
    """Return what a group is for (``data``, ``tensor``, ``pipeline``, ``expert``, ``context``), None when its description does not show."""
    for name, pattern in names()["roles"].items():
        if re.search(rf"(^|[^a-z])({pattern})([^a-z]|$)", description, re.IGNORECASE):
            return str(name)
    return None
