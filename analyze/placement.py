"""Where a model's states could be: bytes on each rank and bytes that each rank moves in a step, by strategy.

Every state is in one of five placements; a strategy is a placement for each and how often it moves what.
With W ranks and parameters P, gradients G of the same size: data parallel moves 2(W-1)/W·P, full sharding 3(W-1)/W·P.
Ring algorithms are assumed, which reach the least volume possible. Sharded states are padded to equal shards.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

ALONE = 8  # a job of one rank is placed on so many
PLACEMENTS = pa.schema(
    {
        "rank": pa.int64(),
        "ranks": pa.int64(),
        "strategy": pa.string(),
        **dict.fromkeys(("parameters", "gradients", "optimizer", "activations", "total", "moved", "host"), pa.int64()),
        "fits": pa.bool_(),
    }
)


class Placement(Enum):
    """Where a state of s bytes is among W ranks, and what it holds on each (u: the largest unit gathered at once)."""

    REPLICATED = "replicated"  # s
    SHARDED = "sharded"  # s/W
    GATHERED = "sharded with gather"  # s/W + u
    ON_DEMAND = "materialised on demand"  # u
    OFFLOADED = "offloaded"  # 0


@dataclass(frozen=True)
class States:
    """What a model holds on one rank of data parallel training, bytes.

    Attributes:
        parameters: Parameters and buffers.
        gradients: Gradients of all parameters.
        optimizer: The optimizer's state.
        activations: Kept for backward; None when not measured.
        unit: Parameters of the largest unit that would be gathered at once.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int | None
    unit: int


@dataclass(frozen=True)
class Strategy:
    """How states are placed; a rank moves (W-1)/W · (gathers · P + reductions · G) bytes in a step.

    ``peer`` is how many ranks' shards a gathered unit has: W, or 1 where shards go round and one is held at a time.
    ``host`` is how often P and how often G cross the link to the host. ``volume_known`` is false where the volume
    depends on the sizes of activations inside the model, which nobody has told.
    """

    name: str
    parameters: Placement
    gradients: Placement
    optimizer: Placement
    activations: Placement = Placement.REPLICATED
    gathers: int = 0
    reductions: int = 0
    rotated: bool = False
    host: tuple[int, int] = (0, 0)
    volume_known: bool = True


_R, _S, _G, _D, _O = Placement
STRATEGIES = (
    Strategy("data parallel", _R, _R, _R, reductions=2),  # all-reduce: reduce-scatter and all-gather of G
    Strategy("ZeRO-1", _R, _R, _S, gathers=1, reductions=1),
    Strategy("ZeRO-2", _R, _S, _S, gathers=1, reductions=1),
    Strategy("ZeRO-3 / FSDP", _G, _G, _S, gathers=2, reductions=1),  # gathered for forward and for backward
    Strategy("tensor parallel", _S, _S, _S, _S, volume_known=False),
    Strategy("rotated shards", _G, _G, _S, gathers=2, reductions=1, rotated=True),
    Strategy("offload", _D, _D, _O, reductions=2, host=(2, 1)),  # P in for forward and backward, G out
)


@dataclass(frozen=True)
class Placed:
    """One strategy for given states and ranks; bytes on each rank. None is unknown.

    ``moved`` is what a rank sends to other ranks in a step, ``host`` what crosses its link to the host.
    """

    strategy: str
    parameters: int
    gradients: int
    optimizer: int
    activations: int | None
    total: int
    moved: int | None
    host: int
    fits: bool | None


def held(size: int, placement: Placement, ranks: int, unit: int) -> int:
    """Return what a state of ``size`` bytes holds on one rank."""
    shard = -(-size // ranks)
    return {
        Placement.REPLICATED: size,
        Placement.SHARDED: shard,
        Placement.GATHERED: shard + unit,
        Placement.ON_DEMAND: unit,
        Placement.OFFLOADED: 0,
    }[placement]


def place(states: States, ranks: int, limit: int | None = None) -> list[Placed]:
    """Return every strategy for ``ranks`` ranks, and whether it fits ``limit`` bytes of device memory.

    Raises:
        ValueError: There are no ranks.
    """
    if ranks < 1:
        raise ValueError(f"{ranks} ranks can hold nothing: give 1 or more.")
    return [_place(states, one, ranks, limit) for one in STRATEGIES]


def cheapest(placed: list[Placed]) -> Placed | None:
    """Return the strategy that fits and moves the least, host included, then holds the most; None when none fits."""
    fitting = [one for one in placed if one.fits and one.moved is not None]
    return min(fitting, key=lambda one: ((one.moved or 0) + one.host, -one.total), default=None)


def _place(states: States, strategy: Strategy, ranks: int, limit: int | None) -> Placed:
    unit = -(-states.unit // ranks) if strategy.rotated else states.unit
    parameters, gradients, optimizer = (
        held(size, placement, ranks, 0 if ranks == 1 and placement is Placement.GATHERED else unit)
        for size, placement in (
            (states.parameters, strategy.parameters),
            (states.gradients, strategy.gradients),
            (states.optimizer, strategy.optimizer),
        )
    )
    activations = None
    if states.activations is not None:
        activations = held(states.activations, strategy.activations, ranks, 0)
    moved = (ranks - 1) * (strategy.gathers * states.parameters + strategy.reductions * states.gradients)
    total = parameters + gradients + optimizer + (activations or 0)
    return Placed(
        strategy.name,
        parameters,
        gradients,
        optimizer,
        activations,
        total,
        -(-moved // ranks) if strategy.volume_known or ranks == 1 else None,
        strategy.host[0] * states.parameters + strategy.host[1] * states.gradients,
        None if limit is None or activations is None else total <= limit,
    )


def placement_rows(ranks: list[dict[str, Any]], activations: dict[int, int]) -> list[dict[str, Any]]:
    """Return the rows of ``placements`` for the rows of ``ranks``; activations are the most of each rank, bytes."""
    rows = []
    for row in ranks:
        sizes = json.loads(row["states"] or "{}")
        if not sizes.get("whole_parameters"):
            continue
        whole = sizes["whole_parameters"]
        states = States(
            whole + (sizes["buffers"] or 0),
            sizes["whole_gradients"],
            sizes["whole_optimizer"],
            activations.get(row["rank"]),
            sizes["unit"] or whole,
        )
        world = row["world_size"] or 1
        count = world if world > 1 else ALONE
        placed = place(states, count, row["device_memory"])
        rows += [{"rank": row["rank"], "ranks": count, **asdict(one)} for one in placed]
    return rows
