"""The data file ``names.toml``, and its patterns as single regular expressions."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def names() -> dict[str, Any]:
    """Return the parsed data file."""
    return tomllib.loads((files(__package__) / "names.toml").read_text())


def pattern(section: str, key: str) -> str:
    """Return one case-insensitive RE2 expression that matches what any of the patterns under a key matches."""
    patterns = names()[section][key]
    alternatives = [patterns] if isinstance(patterns, str) else patterns
    return "(?i)" + "|".join(f"(?:{one})" for one in alternatives)
