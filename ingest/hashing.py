"""The content hash by which a source is known again."""

from __future__ import annotations

import hashlib

import fsspec

CHUNK = 1 << 20


def content_hash(source: str) -> str | None:
    """Return the SHA-256 of a file's own bytes, None when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with fsspec.open(source, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except (OSError, ValueError):
        return None
    return digest.hexdigest()
