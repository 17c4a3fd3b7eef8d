"""Memory snapshots: real out-of-memory errors pass unchanged; what an accelerator would write is written by hand here."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

import stepscope
from stepscope.api import open_run
from stepscope.collect import snapshots
from stepscope.pipeline import ingest, pending_traces

from ..support.snapshots import MiB, event, segment

torch = pytest.importorskip("torch")


def job(run, wanted, error=None, steps=12):
    with stepscope.profile(run, window=None, snapshots=wanted) as prof:
        for step in range(steps):
            if error is not None and step == steps - 1:
                raise error
            prof.step()


@pytest.fixture
def device(monkeypatch):
    """An accelerator that is in use: its history is one failed allocation of 200 MiB, with 400 MiB in pieces."""
    blocks = [b for n in (150, 150, 100) for b in ((n * MiB, "inactive"), (MiB, "active_allocated"))]
    told = {"segments": [segment(4096, blocks)], "device_traces": [[event("oom", 0, 200 * MiB, 1, device_free=0)]]}
    calls = []

    def dump(path):
        with open(path, "wb") as file:
            pickle.dump(told, file)

    memory = SimpleNamespace(_record_memory_history=lambda **how: calls.append(how), _dump_snapshot=dump)
    monkeypatch.setattr(snapshots, "accelerator", lambda _: SimpleNamespace(memory=memory))
    monkeypatch.delattr(torch._C, "_cuda_attachOutOfMemoryObserver", raising=False)
    monkeypatch.delattr(torch._C, "_cuda_isHistoryEnabled", raising=False)
    return SimpleNamespace(memory=memory, calls=calls)


def names(run):
    return sorted(path.name.rpartition("-")[2] for path in run.glob("snapshots/rank=00000/rank0-*.pickle"))


def test_an_out_of_memory_error_leaves_a_snapshot_and_passes_unchanged(tmp_path, device):
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 200 MiB")
    with pytest.raises(torch.OutOfMemoryError) as raised:
        job(tmp_path / "run", True, error)
    assert raised.value is error
    assert raised.value.args == ("CUDA out of memory. Tried to allocate 200 MiB",)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert names(tmp_path / "run") == ["oom1.pickle"]
    assert device.calls == [{"max_entries": snapshots.ENTRIES}, {"enabled": None}]
    ingest(pending_traces(tmp_path / "run"), tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        (told,) = run.sql("select sentence from findings where kind = 'fragmentation'").fetchall()
    assert "Rank 0 ran out of memory" in told[0]


def test_a_schedule_and_no_other_error(tmp_path, device):
    with pytest.raises(RuntimeError, match="other"):
        job(tmp_path / "run", stepscope.every(4, first=2), RuntimeError("other"))
    assert names(tmp_path / "run") == ["10.pickle", "2.pickle", "6.pickle"]


def test_a_snapshot_that_cannot_be_written_is_told_and_nothing_else(tmp_path, device, caplog):
    def fail(path):
        with open(path, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    device.memory._dump_snapshot = fail
    error = torch.OutOfMemoryError("out")
    with caplog.at_level(logging.WARNING, "stepscope"), pytest.raises(torch.OutOfMemoryError) as raised:
        job(tmp_path / "run", True, error)
    assert raised.value is error
    assert caplog.text.count("memory snapshots is off") == 1
    assert not list(tmp_path.rglob("*snapshots*/*/*"))


def test_without_an_accelerator_nothing_is_written_and_said(tmp_path, caplog):
    error = torch.OutOfMemoryError("out")
    with caplog.at_level(logging.WARNING, "stepscope"), pytest.raises(torch.OutOfMemoryError) as raised:
        job(tmp_path / "run", True, error)
    assert raised.value is error
    assert not (tmp_path / "run" / "snapshots").exists()
    assert caplog.text == ""


def test_a_script_ends_as_it_would_alone(tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "import torch\n\n\ndef step():\n    raise torch.OutOfMemoryError('Tried to allocate')\n\n\nstep()\n"
    )
    alone = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    command = [sys.executable, "-m", "stepscope.cli", "run", "--snapshots", "-o", tmp_path / "run", script]
    ours = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ours.returncode, alone.returncode) == (1, 1)
    assert alone.stderr in ours.stderr
