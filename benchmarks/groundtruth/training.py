"""One rank of a training with a planted fault; ``communication.py`` starts it. Torch is used as in any job.

The first argument is a JSON object, see ``Plan``. What was planted, step by step, is measured where it is planted and
written beside the run, so that the truth is known to the nanosecond.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import stepscope

WIDTH, LAYERS, BATCH = 256, 6, 16
SIZES = tuple(1 << k for k in range(16, 21))  # elements of the collectives that measure a link


@dataclass(frozen=True)
class Plan:
    """What a job does. ``on`` is the rank of the fault, -1 for each in turn."""

    out: str
    model: str = "ddp"  # ddp, fsdp, hsdp, all_to_all, sizes
    fault: str = ""  # sleep, matmul, data, stall
    on: int = 0
    ms: float = 50.0
    steps: int = 26
    active: int = 16
    first: int = 6
    shift: int = 0  # each rank's window begins this many steps after the previous rank's


class Fault:
    """Does something slow in the steps of its turn, and knows how long it took."""

    def __init__(self, plan: Plan, rank: int, world: int) -> None:
        self._mine = lambda step: rank == (step % world if plan.on < 0 else plan.on)
        self._ms = plan.ms
        self._kind = plan.fault
        self._factor = torch.randn(192, 192)
        self.step = 0
        self.took: dict[int, int] = {}

    def at(self, place: str) -> None:
        """Do it, if this is the place for it."""
        if self._kind != place or not self._mine(self.step):
            return
        began = time.perf_counter_ns()
        until = began + int(self._ms * 1e6)
        if place == "matmul":
            while time.perf_counter_ns() < until:
                torch.mm(self._factor, self._factor)
        elif place == "stall":
            while time.perf_counter_ns() < until:  # Python at work: nothing that torch records
                pass
        else:
            time.sleep(self._ms / 1e3)
        self.took[self.step] = time.perf_counter_ns() - began


class Samples(Dataset[Tensor]):
    """Random samples; a batch can be slow to read."""

    def __init__(self, fault: Fault, length: int) -> None:
        self._fault = fault
        self._length = length
        self._one = torch.randn(WIDTH)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Tensor:
        if index % BATCH == 0:
            self._fault.at("data")
        return self._one


class Layer(nn.Module):
    """A linear layer whose forward can be slow."""

    def __init__(self, fault: Fault | None) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self._fault = fault

    def forward(self, x: Tensor) -> Tensor:
        if self._fault is not None:
            self._fault.at("sleep")
            self._fault.at("matmul")
        return torch.relu(self.linear(x))


def _ddp(layers: nn.Module) -> nn.Module:
    return DistributedDataParallel(layers, bucket_cap_mb=0.6)


def _fsdp(layers: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
    for layer in layers.children():
        fully_shard(layer, mesh=mesh)
    return fully_shard(layers, mesh=mesh)


def _exchange(x: Tensor) -> None:
    """All-to-all as in expert parallelism: even tokens out, and back."""
    there, back = torch.empty_like(x), torch.empty_like(x)
    dist.all_to_all_single(there, x)
    dist.all_to_all_single(back, there)


def _sizes(world: int) -> None:
    for elements in SIZES:
        x = torch.ones(elements)
        dist.all_reduce(x)
        dist.all_gather_into_tensor(torch.empty(elements * world), x)
        _exchange(torch.ones(elements * world))


def _trainer(plan: Plan, fault: Fault, world: int) -> Callable[[Tensor], None]:
    if plan.model == "sizes":
        return lambda batch: _sizes(world)
    if plan.model == "all_to_all":
        layer, tokens = Layer(fault), torch.randn(world, 1 << 17)

        def step(batch: Tensor) -> None:
            layer(batch)
            _exchange(tokens)

        return step
    layers = nn.Sequential(*(Layer(fault if one == 2 else None) for one in range(LAYERS)))
    model = {
        "ddp": lambda: _ddp(layers),
        "fsdp": lambda: _fsdp(layers, (world,)),
        "hsdp": lambda: _fsdp(layers, (2, world // 2)),
    }[plan.model]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(batch: Tensor) -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return train


@contextmanager
def _job() -> Iterator[tuple[int, int]]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    yield dist.get_rank(), dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Train as planned."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    plan = Plan(**told)
    with _job() as (rank, world):
        fault = Fault(plan, rank, world)
        train = _trainer(plan, fault, world)
        loader = DataLoader(Samples(fault, plan.steps * BATCH), batch_size=BATCH)
        window = stepscope.every(10_000, active=plan.active, first=plan.first + plan.shift * rank, slow=None)
        with stepscope.profile(plan.out, window=window, keep_raw=True) as prof:
            for batch in prof.data(loader):
                fault.at("stall")
                train(batch)
                prof.step()
                fault.step += 1
        Path(plan.out, f"planted{rank}.json").write_text(json.dumps(fault.took))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
