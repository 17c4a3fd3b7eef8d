"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from stepscope.api import Run, open_run
from stepscope.pipeline import ingest

settings.register_profile("stepscope", deadline=None)  # how long an example takes is no property
settings.load_profile("stepscope")

SHARED = Path(__file__).parents[2] / "shared" / "traces"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The third-party traces beside the checkout: absent, tests that need them skip, but never in CI."""
    if not SHARED.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail("CI has no ../shared/traces")
        pytest.skip("../shared/traces is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def shared_run(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Return a function that opens a run of shared traces (path or glob below ``traces/``), ingested once."""
    opened: dict[str, Run] = {}

    def run(trace: str) -> Run:
        if trace not in opened:
            out = tmp_path_factory.mktemp("run") / "run"
            ingest(str(shared / trace), out)
            opened[trace] = open_run(out)
        return opened[trace]

    return run
