"""A training step on the CPU that takes about 5 ms here, for what the collector costs."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch

Step = Callable[[torch.Tensor], None]


def training_step(target_seconds: float = 0.005) -> tuple[Step, list[torch.Tensor]]:
    """Return a step sized to take ``target_seconds``, and 100 batches for it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows = 32
    while True:
        step, batches = _of_size(rows)
        if (took := median(_seconds(step, batch) for batch in batches)) >= 0.9 * target_seconds:
            return step, batches
        rows = int(rows * min(2, max(1.1, target_seconds / took)))


def _seconds(step: Step, batch: torch.Tensor) -> float:
    begun = perf_counter()
    step(batch)
    return perf_counter() - begun


def _of_size(rows: int) -> tuple[Step, list[torch.Tensor]]:
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step, [torch.randn(rows, 256) for _ in range(100)]
