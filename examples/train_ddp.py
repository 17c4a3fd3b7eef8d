"""Train a small network on two or more CPU ranks, with a dataset that can be made slow.

    torchrun --nproc-per-node=2 examples/train_ddp.py --out runs/slow --slow-ms 4 --workers 0
    torchrun --nproc-per-node=2 examples/train_ddp.py --out runs/healthy

The first reads its samples slowly in the training process; in the second a worker prepares them meanwhile.
Stepscope is one line of it: the loop's ``watch``.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

import stepscope

BATCH = 128


class Pictures(Dataset[tuple[Tensor, int]]):
    """Random pictures of ten classes; each takes ``slow_ms`` milliseconds to read."""

    def __init__(self, samples: int, slow_ms: float) -> None:
        self.pixels = torch.randn(256, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        self.samples = samples
        self.slow_ms = slow_ms

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if self.slow_ms:
            time.sleep(self.slow_ms / 1e3)
        return self.pixels[index % len(self.pixels)], index % 10


def network() -> nn.Module:
    """Return a network that computes much and has few parameters, so that ranks exchange little."""
    return nn.Sequential(
        nn.Conv2d(3, 48, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 48, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 48, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def main() -> None:
    """Train for ``--steps`` steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="runs/train_ddp", help="run directory")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--slow-ms", type=float, default=0.0, help="milliseconds to read one sample")
    parser.add_argument("--workers", type=int, default=1, help="loader processes a rank")
    options = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")

    dataset = Pictures(options.steps * BATCH * dist.get_world_size(), options.slow_ms)
    loader = DataLoader(dataset, batch_size=BATCH, sampler=DistributedSampler(dataset), num_workers=options.workers)
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    for pictures, labels in stepscope.watch(loader, options.out, window=stepscope.every(12, active=4)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()

    if dist.get_rank() == 0:
        print(f"trained {options.steps} steps, loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
