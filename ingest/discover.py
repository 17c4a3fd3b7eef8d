"""What the user typed -> the list of files to look at.

Files, directories, globs and fsspec URIs. Whether a file is a trace is judged later, by its content; here
only a directory narrows by name (``_ENDINGS``), because a directory was not written for us.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import StepscopeError

_ENDINGS = (".json", ".json.gz", ".raw.gz", ".pickle", ".pkl")
_MAGIC = ("*", "?", "[")


@dataclass(frozen=True)
class Found:
    """One file to look at.

    Attributes:
        source: Path or URI that opens it.
        named: Whether the user wrote this file's own path, not a directory or a glob that holds it.
    """

    source: str
    named: bool

    @property
    def told(self) -> str:
        """The source as text: the name of a file is bytes, and need not be UTF-8."""
        return os.fsencode(self.source).decode("utf-8", "backslashreplace")


def discover(traces: Sequence[str]) -> list[Found]:
    """List the candidate files of all inputs: sorted, each once, named ones marked.

    A literal path wins over a glob; directories are walked recursively without following links to folders;
    hidden files and the own files of a Stepscope run are left out.

    Raises:
        StepscopeError: An input does not exist, or a glob matches nothing.
    """
    found: dict[str, Found] = {}
    for trace in traces:
        for one in _uri(trace) if "://" in trace else _local(trace):
            key = one.source if "://" in one.source else os.path.abspath(one.source)
            if key not in found or (one.named and not found[key].named):
                found[key] = one
    return sorted(found.values(), key=lambda one: one.source)


def _local(path: str) -> list[Found]:
    if os.path.isfile(path):
        return [Found(os.path.normpath(path), named=True)]
    if os.path.isdir(path):
        return [Found(source, named=False) for source in _walk(path)]
    if os.path.exists(path):  # a pipe or a device: neither hashed nor read twice
        raise StepscopeError(f"{path} is neither a file nor a directory. Copy the trace into a file first.")
    matches = [os.path.normpath(m) for m in glob.glob(path, recursive=True)] if _is_glob(path) else []
    if not matches:
        raise _missing(path)
    files = [m for m in matches if os.path.isfile(m)]
    folders = [] if "**" in path else [m for m in matches if os.path.isdir(m)]
    return [Found(s, named=False) for s in (*files, *(s for f in folders for s in _walk(f)))]


def _walk(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder, followlinks=False):
        ours = "run.json" in files
        folders[:] = [f for f in folders if not f.startswith(".") and not (ours and f == "sessions")]
        for name in files:
            if _candidate(name, ours) and os.path.isfile(os.path.join(here, name)):
                yield os.path.normpath(os.path.join(here, name))


def _candidate(name: str, in_run: bool) -> bool:
    return name.endswith(_ENDINGS) and not name.startswith(".") and not (in_run and name == "run.json")


def _is_glob(path: str) -> bool:
    return any(c in path for c in _MAGIC)


def _missing(path: str) -> StepscopeError:
    what = "matches no file" if _is_glob(path) else "does not exist"
    return StepscopeError(f"{path} {what}. Give a trace file, a directory, a glob or a URI that exists.")


def _uri(uri: str) -> list[Found]:
    import fsspec  # only URIs pay for it

    try:
        fs, path = fsspec.core.url_to_fs(uri)
        if "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
            return _local(path)
        if fs.isfile(path):
            return [Found(uri, named=True)]
        if fs.isdir(path):
            return [Found(fs.unstrip_protocol(p), named=False) for p in _walk_fs(fs, path)]
        matches = sorted(fs.glob(path)) if _is_glob(path) else []
    except (ImportError, ValueError, OSError) as error:
        raise StepscopeError(f"{uri} cannot be opened ({error}). Check the URI and its fsspec driver.") from error
    if not matches:
        raise _missing(uri)
    return [Found(fs.unstrip_protocol(p), named=False) for p in matches if fs.isfile(p)]


def _walk_fs(fs: Any, folder: str) -> Iterator[str]:
    for here, folders, files in fs.walk(folder):
        ours = "run.json" in files
        for name in list(folders):
            if name.startswith(".") or (ours and name == "sessions"):
                folders.remove(name) if isinstance(folders, list) else folders.pop(name)
        yield from (f"{here.rstrip('/')}/{name}" for name in files if _candidate(name, ours))
