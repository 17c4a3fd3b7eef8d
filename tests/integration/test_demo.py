"""The main job, for real: two ranks train, are profiled, and the page answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from stepscope import open_run

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]


def demo(folder, *options):
    command = [sys.executable, "-m", "stepscope", "demo", "--out", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_planted_fault_is_named_first_with_its_cost(tmp_path):
    said = demo(tmp_path / "demo")
    assert said[-1] == str(tmp_path / "demo" / "report.html")
    assert said[-2].startswith("Input-bound")
    assert (tmp_path / "demo" / "report.html").stat().st_size < 3_000_000
    with open_run(tmp_path / "demo" / "run") as run:
        assert run.coverage() == "2 of 2 ranks"
        first = run.findings().iloc[0]
        assert first.kind == "loader_bound"
        # 128 samples of 4 ms are slept away in every step; what collating adds is real too.
        assert 512_000_000 <= first.lost_ns_per_step < 1.25 * 512_000_000
        assert "num_workers" in first.advice
        assert run.invariants().holds.dropna().all()


def test_nothing_is_found_where_nothing_is_planted(tmp_path):
    said = demo(tmp_path / "demo", "--healthy")
    with open_run(tmp_path / "demo" / "run") as run:
        assert run.findings().kind.tolist() == ["nothing_wrong"], said
