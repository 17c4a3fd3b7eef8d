"""Memory whose right answer is known: ``python -m benchmarks.groundtruth.memory [--only NAME] [--write FILE]``.

Every experiment trains for real (``memory_jobs.py``), on the CPU and, where there is one, on a CUDA device, then asks the
run. Exact bytes are required where they are exact, the slope of a leak within 5 %, and no leak in healthy runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import stepscope
from stepscope.analyze.query import rows_of
from stepscope.pipeline import ingest

from .memory_jobs import BATCH, LEAK, SHM_BATCH, SHM_MIB, STEPS, WIDTHS, Job, MiB, load, train

Answer = tuple[str, Any, Any, bool]  # what, wanted, got, whether that is right
OPTIMIZERS = {"sgd": (0, 0), "momentum": (4, 0), "adamw": (8, 4)}  # bytes of state an element; a tensor
ELEMENTS = sum((before + 1) * after for before, after in itertools.pairwise(WIDTHS))
TENSORS = 2 * (len(WIDTHS) - 1)
# Kept for backward: the input, what ReLU and the second layer put out. A loss of 4 bytes holds them.
GRAPH = 4 * BATCH * sum(WIDTHS) + 4
WINDOW = stepscope.every(1000, active=4, first=STEPS - 10, slow=None)


def _devices() -> list[str]:
    import torch

    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def states() -> Iterator[Answer]:
    """Parameters, gradients and optimizer state to the byte, as walked and as seen by the allocator's events."""
    for device, optimizer in itertools.product(_devices(), OPTIMIZERS):
        window = stepscope.every(100, active=3, first=2)
        with train(Job(device, optimizer, steps=9, window=window)) as run:
            yield from _walked(run, f"{device} {optimizer}", optimizer)
            lines = "select max(bytes) from memory_lines where category = 'gradient' and device <> 'recorded'"
            ((gradient,),) = run.sql(lines).fetchall()
        if device == "cpu":  # a device's allocator rounds up
            yield f"{device} {optimizer}: gradients, traced", 4 * ELEMENTS, gradient, gradient == 4 * ELEMENTS


def buckets() -> Iterator[Answer]:
    """The same on two ranks with DDP, whose gradients are copied into its buckets or live in them."""
    for optimizer, views in itertools.product(OPTIMIZERS, (False, True)):
        with train(Job("cpu", optimizer, steps=9, ranks=2, views=views)) as run:
            yield from _walked(run, f"DDP {'bucket views' if views else 'buckets'}, {optimizer}", optimizer)


def _walked(run: stepscope.Run, name: str, optimizer: str) -> Iterator[Answer]:
    each, counter = OPTIMIZERS[optimizer]
    wanted = {"parameters": 4 * ELEMENTS, "gradients": 4 * ELEMENTS, "optimizer": each * ELEMENTS + counter * TENSORS}
    for rank, told in run.sql("select rank, states from ranks order by rank").fetchall():
        walked = json.loads(told)
        for what, size in wanted.items():
            yield f"{name}: {what} of rank {rank}, walked", size, walked[what], walked[what] == size


def leak() -> Iterator[Answer]:
    """A leak of known bytes a step is found, its slope within 5 %, and the operator to the byte."""
    for device in _devices():
        with train(Job(device, fault="leak", window=WINDOW)) as run:
            yield from _growth(run, device, LEAK)
            top = rows_of(run.query("memory_growing"))[0]
        right = top["bytes_per_step"] == LEAK and top["place"] in (
            "aten::ones",
            "aten::empty",
        )  # the innermost operator
        told = f"{top['bytes_per_step']} by {top['place']}"
        yield f"{device}: what stays of every profiled step, and whose", LEAK, told, right


def activations() -> Iterator[Answer]:
    """Losses kept with their graphs hold the activations: the slope within 5 %, what stays of a step to the byte."""
    for device in _devices():
        with train(Job(device, fault="activations", window=WINDOW)) as run:
            yield from _growth(run, device, GRAPH)
            stays = sum(row["bytes_per_step"] for row in rows_of(run.query("memory_growing")))
            held = "activations_held" in set(run.findings().kind)
        if device == "cpu":
            yield f"{device}: what stays of every profiled step", GRAPH, stays, stays == GRAPH
        yield f"{device}: activations_held is found", True, held, held


def healthy() -> Iterator[Answer]:
    """Three healthy runs have no leak, hold nothing and are near no limit."""
    unwanted = {"memory_growth", "activations_held", "memory_limit", "shared_memory_limit", "host_memory_limit"}
    for device, optimizer in itertools.product(_devices(), OPTIMIZERS):
        with train(Job(device, optimizer, window=WINDOW)) as run:
            found = sorted(unwanted & set(run.findings().kind))
            yield f"{device} {optimizer}: memory findings in {STEPS} steps", [], found, not found


def shared() -> Iterator[Answer]:
    """Two workers fill /dev/shm: 32 batches ahead and one in use are 66 of 70 MiB; 4 ahead are no matter."""
    for prefetch, wanted in ((16, 33), (2, 5)):
        run = load(prefetch)
        if run is None:
            yield "needs root, to mount a /dev/shm of its own", "skipped", "skipped", True
            return
        with run:
            ((used, size),) = run.sql("select max(shm_used), any_value(shm_size) from host_memory").fetchall()
            told = "shared_memory_limit" in set(run.findings().kind)
        full = wanted * SHM_BATCH >= 0.92 * SHM_MIB * MiB
        near = abs(used - wanted * SHM_BATCH) <= SHM_BATCH and size == SHM_MIB * MiB
        yield f"prefetch_factor {prefetch}: used, give or take a batch", wanted * SHM_BATCH, used, near
        yield f"prefetch_factor {prefetch}: shared_memory_limit is found", full, told, told == full


def fragmented() -> Iterator[Answer]:
    """A pool in pieces, written by hand: 400 MiB free, in blocks of 150 MiB at most, when 200 MiB are asked."""
    sizes = [(150, "inactive"), (1, "active_allocated"), (150, "inactive"), (1, "active_allocated"), (100, "inactive")]
    blocks = [{"size": n * MiB, "requested_size": n * MiB, "state": state} for n, state in sizes]
    segment = {"device": 0, "address": 4096, "total_size": 402 * MiB, "segment_pool_id": (0, 0), "blocks": blocks}
    oom = {"action": "oom", "addr": 0, "size": 200 * MiB, "device_free": 0, "time_us": 1, "frames": []}
    folder = Path(tempfile.mkdtemp(prefix="stepscope-truth-"))
    (folder / "oom.pickle").write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[oom]]}))
    ingest(folder / "oom.pickle", folder / "run")
    with stepscope.open_run(folder / "run") as run:
        found = run.findings()
    said = "asked 200 MiB; 400 MiB reserved but free, largest block 150 MiB"
    told = " ".join(found[found.kind == "fragmentation"].sentence)
    yield "fragmentation, in words", said, told, said in told


def _growth(run: stepscope.Run, device: str, wanted: int) -> Iterator[Answer]:
    found = run.findings()
    rows = found[found.kind == "memory_growth"].evidence_rows.tolist()
    slope = json.loads(rows[0])[0]["bytes_per_step"] if rows else None
    yield f"{device}: bytes a step, within 5 %", wanted, slope, slope is not None and abs(slope / wanted - 1) <= 0.05


EXPERIMENTS: dict[str, Callable[[], Iterator[Answer]]] = {
    one.__name__: one for one in (states, buckets, leak, activations, healthy, shared, fragmented)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groundtruth.memory")
    parser.add_argument("--only", choices=EXPERIMENTS, help="run one experiment")
    parser.add_argument("--write", type=Path, help="write the table to this file")
    arguments = parser.parse_args()
    lines, wrong = [], 0
    for name in [arguments.only] if arguments.only else EXPERIMENTS:
        for what, wanted, got, right in EXPERIMENTS[name]():
            wrong += not right
            verdict = "right" if right else "WRONG"
            print(f"{verdict}  {name}: {what}: wanted {wanted}, got {got}", flush=True)
            lines.append(f"| {name} | {what} | {wanted} | {got} | {verdict} |")
    if arguments.write:
        told = "# Memory: what was planted and what was found\n\nWritten by `python -m benchmarks.groundtruth.memory --write`.\n"
        table = "\n| experiment | question | wanted | found | |\n|---|---|---:|---:|---|\n" + "\n".join(lines) + "\n"
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        arguments.write.write_text(told + table)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
