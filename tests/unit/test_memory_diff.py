"""Two snapshots written by hand: what grew, by each way of looking, sums to the difference."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stepscope.analyze.memory_diff import WAYS, compare_memory
from stepscope.api import open_run
from stepscope.ingest.errors import StepscopeError
from stepscope.pipeline import ingest

from ..support.snapshots import MiB, event, frame, segment, write

FORWARD = [frame("relu", 9, "/lib/torch/nn/functional.py"), frame("forward", 3), frame("main", 1)]
OTHER = [frame("gelu", 9, "/lib/torch/nn/functional.py"), frame("forward", 7), frame("main", 1)]
STATE = [frame("_init_group", 5, "/lib/torch/optim/adamw.py"), frame("main", 2)]


def recorded(folder, name, forward, other, state, device=0):
    """A peak of 10 MiB that nobody explains, and so many MiB of activations in two places and of optimizer state."""
    sizes = [(0x2000_0000, forward, FORWARD), (0x4000_0000, other, OTHER), (0x6000_0000, state, STATE)]
    trace = [event("alloc", at, n * MiB, i + 1, frames) for i, (at, n, frames) in enumerate(sizes) if n]
    segments = [segment(0x1000, [(10 * MiB, "active_allocated")], device)]
    segments += [segment(at, [(n * MiB, "active_allocated")], device) for at, n, _ in sizes if n]
    traces = [[]] * device + [trace]
    ingest(write(folder / name / "rank0.pickle", segments, *traces), folder / f"run-{name}")
    return folder / f"run-{name}"


def changes(diff, way):
    return [(*one.what, one.before // MiB, one.after // MiB) for one in diff.by(way)]


def test_parts_sum_to_the_difference(tmp_path):
    """Before 10 + 50 + 40, after 10 + 80 + 30 + 25: 45 more, of which 20 activations and 25 optimizer state."""
    with (
        open_run(recorded(tmp_path, "a", 50, 40, 0)) as before,
        open_run(recorded(tmp_path, "b", 80, 30, 25)) as after,
    ):
        diff = compare_memory(before, after)
        assert diff.difference == 45 * MiB
        assert changes(diff, "category") == [("optimizer", "optimizer", 0, 25), ("activation", "forward", 90, 110)]
        assert changes(diff, "place") == [
            ("activation", None, "forward (/job/train.py:3)", 50, 80),
            ("optimizer", None, "main (/job/train.py:2)", 0, 25),
            ("activation", None, "forward (/job/train.py:7)", 40, 30),
        ]
        for way in WAYS:
            assert sum(one.difference for one in diff.by(way)) == diff.difference
        back = compare_memory(after, before)
        assert [(one.what, -one.difference) for one in back.by("stack")] == [
            (one.what, one.difference) for one in diff.by("stack")
        ]


def test_a_run_against_itself_changes_nothing(tmp_path):
    with open_run(recorded(tmp_path, "a", 50, 40, 0)) as run:
        diff = compare_memory(run, run)
    assert (diff.difference, [diff.by(way) for way in WAYS]) == (0, [[], [], []])


def test_different_devices_and_no_recording_are_sentences(tmp_path):
    with (
        open_run(recorded(tmp_path, "a", 5, 5, 0)) as here,
        open_run(recorded(tmp_path, "b", 5, 5, 0, device=1)) as there,
    ):
        with pytest.raises(StepscopeError, match="different devices \\(cuda:0 and cuda:1\\)"):
            compare_memory(here, there)
        with pytest.raises(StepscopeError, match="no recording of memory of rank 4"):
            compare_memory(here, there, rank=4)


def test_the_command_line(tmp_path):
    runs = [recorded(tmp_path, "a", 50, 40, 0), tmp_path / "b" / "rank0.pickle"]  # a run, and a snapshot as it is
    recorded(tmp_path, "b", 80, 30, 25)
    command = [sys.executable, "-m", "stepscope.cli", "diff-memory", *runs]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Peak on cuda:0: 100 MiB before (rank 0), 145 MiB after (rank 0); +45.0 MiB." in text
    assert [line.split() for line in text.splitlines()[2:]] == [
        ["optimizer", "optimizer", "0", "B", "25.0", "MiB", "+25.0", "MiB"],
        ["activation", "forward", "90.0", "MiB", "110", "MiB", "+20.0", "MiB"],
    ]
    told = json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True, check=True).stdout)
    assert (told["schema"], told["difference"]) == ("stepscope/memory-diff/1", 45 * MiB)
    assert sum(one["after"] - one["before"] for one in told["by"]["stack"]) == 45 * MiB
