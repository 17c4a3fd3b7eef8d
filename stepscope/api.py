"""The Python API over a recorded run: open it, ask it, report it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import fsspec

from .analyze.run import Run as _Run
from .ingest.errors import StepscopeError


class Run(_Run):
    """A run that can also write its report. See ``stepscope.analyze.run.Run``."""

    def report(self, path: str | os.PathLike[str] = "report.html") -> Path:
        """Write the self-contained HTML report and return its path."""
        from .reports.html import write_report

        return write_report(self, Path(path))


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run directory, local or at an fsspec URI (which is fetched to a temporary directory).

    Raises:
        StepscopeError: There is no run, or one of a newer schema.
    """
    text = os.fspath(path)
    if "://" not in text:
        return Run(text)
    local = tempfile.mkdtemp(prefix="stepscope-run-")
    try:
        fs, root = fsspec.core.url_to_fs(text)
        fs.get(root.rstrip("/") + "/", local + "/", recursive=True)
    except (OSError, ValueError, ImportError) as error:
        raise StepscopeError(f"Cannot read the run at {text}: {error}.") from error
    return Run(local)
