"""Host memory, read from made-up control groups and from real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from stepscope.collect import host_memory
from stepscope.collect.counters import Counters, devices
from stepscope.ingest.sessions import collected

MiB = 2**20


def group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(str(text))


@pytest.mark.parametrize("version", [1, 2])
def test_the_tightest_limit_holds_and_file_cache_does_not_count(tmp_path, version):
    """The pod may have 900 MiB, its container sets no limit: 700 MiB are used, 250 MiB of which are file cache."""
    top = tmp_path / ("memory" if version == 1 else "")
    names = {1: ("memory__limit_in_bytes", "memory__usage_in_bytes"), 2: ("memory__max", "memory__current")}[version]
    none = 2**63 - 4096 if version == 1 else "max"
    cache = (
        "total_inactive_file 157286400\ntotal_active_file 104857600"
        if version == 1
        else "inactive_file 157286400\nactive_file 104857600"
    )
    group(top / "pod", **dict(zip(names, (900 * MiB, 700 * MiB), strict=True)), memory__stat=cache)
    group(top / "pod" / "box", **dict(zip(names, (none, 650 * MiB), strict=True)), memory__stat="")
    member = tmp_path / "cgroup"
    member.write_text("5:cpu:/pod\n4:memory:/pod/box\n" if version == 1 else "0::/pod/box\n")
    assert host_memory.Cgroup(tmp_path, member).read() == {"cgroup_used": 450 * MiB, "cgroup_limit": 900 * MiB}


def test_no_group_and_no_limit_are_none(tmp_path):
    nothing = {"cgroup_used": None, "cgroup_limit": None}
    assert host_memory.Cgroup(tmp_path, tmp_path / "none").read() == nothing
    group(tmp_path, memory__max="max", memory__current=5)
    (tmp_path / "cgroup").write_text("0::/\n")
    assert host_memory.Cgroup(tmp_path, tmp_path / "cgroup").read() == nothing


def test_workers_are_summed_and_the_dead_do_not_count():
    """A process that fills 64 MiB holds at least that; one that has ended is none."""
    code = "x = bytearray(64 << 20); print('full', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout.readline() == b"full\n"
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        told = host_memory.workers([job.pid, gone.pid])
        job.communicate(b"\n")
    assert told["workers"] == 1
    assert 64 * MiB <= told["workers_pss"] <= told["workers_rss"] < 400 * MiB
    assert host_memory.workers([]) == {"workers": 0, "workers_rss": None, "workers_pss": None}


def test_shared_memory_is_the_file_systems(tmp_path):
    before, size = host_memory.shared()["shm_used"], os.statvfs("/dev/shm")
    path = f"/dev/shm/stepscope-{os.getpid()}"
    try:
        with open(path, "wb") as file:
            file.write(bytes(8 * MiB))
        told = host_memory.shared()
    finally:
        os.unlink(path)
    assert told["shm_size"] == size.f_blocks * size.f_frsize
    assert told["shm_used"] >= 8 * MiB
    assert before is not None


def test_rows_are_readable_while_the_job_lives_and_after(tmp_path):
    counters = Counters(tmp_path, "s")
    assert counters.due_at <= 1
    counters.read(3, 7, 1_000)
    assert counters.due_at > 1  # the next one waits
    (live,) = collected(tmp_path, "host_memory").to_pylist()
    assert (live["rank"], live["step"], live["t_ns"], live["workers"]) == (3, 7, 1_000, 0)
    assert 0 < live["pss"] <= live["rss"] < live["total"]
    counters.close()
    assert [path.suffix for path in (tmp_path / "host_memory" / "rank=00003").iterdir()] == [".parquet"]
    assert collected(tmp_path, "host_memory").to_pylist() == [live]
    assert not (tmp_path / "device_memory").exists()  # no device in use


def test_devices_in_torchs_own_words():
    """No CUDA here: what torch.cuda documents, by hand; the second device is not in use and not asked."""
    stats = {"allocated_bytes.all.current": 5, "reserved_bytes.all.current": 8, "active_bytes.all.current": 6}
    stats |= {"allocated_bytes.all.peak": 7, "reserved_bytes.all.peak": 9, "num_alloc_retries": 2, "num_ooms": 1}
    cuda = SimpleNamespace(__name__="torch.cuda", is_initialized=lambda: True, device_count=lambda: 2)
    cuda.memory_stats = lambda index: [stats, {}][index]
    cuda.mem_get_info = lambda index: [(70, 100)][index]
    mps = SimpleNamespace(is_available=lambda: False)
    assert json.dumps(devices(SimpleNamespace(cuda=cuda, backends=SimpleNamespace(mps=mps)))) == json.dumps(
        [
            {"device": "cuda:0", "allocated": 5, "reserved": 8, "active": 6, "peak_allocated": 7, "peak_reserved": 9}
            | {"retries": 2, "ooms": 1, "free": 70, "total": 100}
        ]
    )
