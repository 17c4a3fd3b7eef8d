"""Sizes that the collector walks in real training are those of arithmetic, and DDP and FSDP move what the table says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.api import open_run

torch = pytest.importorskip("torch")


def test_the_walk_is_exact(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(30, 50), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    with stepscope.profile(tmp_path / "run", window=None) as prof:
        prof.watch_model(model)
        for _ in range(3):
            model(torch.randn(4, 30)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            prof.step()
    elements = 30 * 50 + 50 + 50 + 50 + 50 * 2 + 2
    with open_run(tmp_path / "run") as run:
        ((states,),) = run.sql("select states from ranks").fetchall()
        placed = dict(run.sql("select strategy, optimizer from placements").fetchall())
    assert json.loads(states) == {
        "parameters": 4 * elements,
        "whole_parameters": 4 * elements,
        "gradients": 4 * elements,
        "whole_gradients": 4 * elements,
        "buffers": 2 * 50 * 4 + 8,  # running mean and variance, and a counter of int64
        "optimizer": 2 * 4 * elements + 6 * 4,  # two moments, and a step counter for each of 6 tensors
        "whole_optimizer": 2 * 4 * elements + 6 * 4,
        "unit": 4 * (30 * 50 + 50),
    }
    assert placed["data parallel"] == 8 * elements + 24
    assert placed["ZeRO-1"] == -(-(8 * elements + 24) // 8)


def test_without_a_model_the_optimizers_tell(tmp_path):
    weights, others = torch.nn.Linear(10, 10), torch.nn.Linear(10, 3, bias=False)
    optimizers = [
        torch.optim.SGD(weights.parameters(), momentum=0.9, lr=0.1),
        torch.optim.SGD(others.parameters(), lr=0.1),
    ]
    for _ in stepscope.watch(range(6), tmp_path / "run", window=None):
        others(weights(torch.randn(2, 10))).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    with open_run(tmp_path / "run") as run:
        ((states,),) = run.sql("select states from ranks").fetchall()
    told = json.loads(states)
    assert (told["parameters"], told["optimizer"], told["buffers"]) == (4 * 140, 4 * 110, None)


JOB = """
import sys, torch, torch.distributed as dist, stepscope
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(3)])
if sys.argv[2] == "ddp":
    model = DistributedDataParallel(model)
else:
    for unit in model:
        fully_shard(unit)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
with stepscope.profile(sys.argv[1], window=stepscope.every(5, active=3)) as prof:
    prof.watch_model(model)
    for _ in range(16):
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        prof.step()
dist.destroy_process_group()
"""
P = 3 * (64 * 64 + 64) * 4
# Bytes of the whole buffer, from the operators' own shapes: the larger of input and output.
MOVED = """
    with told as (
        select rank, step, name, json_extract(args, '$."Input Dims"')::json[] as dims
        from events join judged using (rank, capture, step)
        where name in ('c10d::allreduce_', 'c10d::_allgather_base_', 'c10d::_reduce_scatter_base_')
    )
    select rank, step, name, sum(greatest(
        (dims[1]->>0)::bigint, coalesce((dims[2]->>0)::bigint, 0))) * 4 as bytes
    from told group by all
"""


def distributed(folder: Path, kind: str) -> Path:
    (folder / "job.py").write_text(JOB)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, folder / "job.py", folder / "run", kind],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "run"


@pytest.mark.parametrize(("kind", "strategy", "here"), [("ddp", "data parallel", 1), ("fsdp", "ZeRO-3 / FSDP", 2)])
def test_traced_volumes_and_walked_sizes_are_the_tables(tmp_path, kind, strategy, here):
    with open_run(distributed(tmp_path, kind)) as run:
        row = "select distinct states, parameters, optimizer, moved from ranks join placements using (rank) where strategy = $s"
        ((states, parameters, optimizer, moved),) = run.sql(row, s=strategy).fetchall()
        told = json.loads(states)
        assert told["whole_parameters"] == P
        assert told["parameters"] == told["gradients"] == P // here
        shard_of_unit = P // 3
        assert parameters == (P if kind == "ddp" else P // 2 + shard_of_unit)
        assert told["optimizer"] == 2 * P // here + 6 * 4
        assert abs(optimizer - told["optimizer"]) <= 6 * 4  # step counters stay whole on every rank
        if kind == "ddp":
            buffers = run.sql(
                "select rank, step, op, sum(bytes) from collectives join judged using (rank, capture, step) "
                "where op = 'all_reduce' group by all"
            ).fetchall()
        else:
            buffers = run.sql(MOVED).fetchall()
    assert buffers
    volume: dict[tuple[int, int], int] = {}
    for rank, step, op, size in buffers:
        volume[rank, step] = volume.get((rank, step), 0) + int(size) * (2 if op == "all_reduce" else 1) // 2
    assert set(volume.values()) == {moved} == {P if kind == "ddp" else 3 * P // 2}
