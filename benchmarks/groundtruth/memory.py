"""Memory whose right answer is known: ``python -m benchmarks.groundtruth.memory [--only NAME]``.

Every experiment trains for real in a process of its own, on the CPU and, where there is one, on a CUDA device, then asks
the run. Exact bytes are required where they are exact, the slope of a leak within 5 %, and no leak in healthy runs.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import stepscope

Answer = tuple[str, Any, Any, bool]  # what, wanted, got, whether that is right
MiB = 2**20
LEAK = 2 * MiB  # bytes kept in every step
STEPS = 250
STEP_S = 0.02  # long enough for memory to be read often


def _devices() -> list[str]:
    import torch

    return ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def _train(out: str, device: str, optimizer: str, steps: int, fault: str, window: Any) -> None:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).to(device)
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    }[optimizer]
    optim = make(model.parameters())
    kept: list[Any] = []
    with stepscope.profile(out, window=window) as prof:
        prof.watch_model(model)
        for _ in range(steps):
            began = time.perf_counter()
            loss = model(torch.randn(512, 256, device=device)).square().mean()
            loss.backward(retain_graph=fault == "activations")
            optim.step()
            optim.zero_grad()
            if fault == "leak":
                kept.append(torch.ones(LEAK, dtype=torch.uint8, device=device))
            elif fault == "activations":
                kept.append(loss)  # with its graph
            time.sleep(max(0.0, STEP_S - time.perf_counter() + began) if steps == STEPS else 0)
            prof.step()


def _run(*arguments: Any) -> stepscope.Run:
    out = Path(tempfile.mkdtemp(prefix="stepscope-truth-")) / "run"
    job = get_context("spawn").Process(target=_train, args=(str(out), *arguments))
    job.start()
    job.join()
    if job.exitcode:
        raise RuntimeError(f"the job of {arguments} ended with {job.exitcode}")
    return stepscope.open_run(out)


def states() -> Iterator[Answer]:
    """Parameters, gradients and optimizer state to the byte, as walked and as seen by the allocator's events."""
    elements, tensors = 256 * 512 + 512 + 512 * 64 + 64, 4
    for device in _devices():
        for optimizer, each, counters in (("sgd", 0, 0), ("momentum", 4, 0), ("adamw", 8, 4)):
            with _run(device, optimizer, 9, "", stepscope.every(100, active=3, first=2)) as run:
                ((told,),) = run.sql("select states from ranks").fetchall()
                walked = json.loads(told)
                lines = "select max(bytes) from memory_lines where category = 'gradient' and device <> 'recorded'"
                ((gradient,),) = run.sql(lines).fetchall()
            wanted = {
                "parameters": 4 * elements,
                "gradients": 4 * elements,
                "optimizer": each * elements + counters * tensors,
            }
            for name, size in wanted.items():
                yield f"{device} {optimizer}: {name}, walked", size, walked[name], walked[name] == size
            if device == "cpu":  # a device's allocator rounds up
                yield f"{device} {optimizer}: gradients, traced", 4 * elements, gradient, gradient == 4 * elements


def leak() -> Iterator[Answer]:
    """A leak of known bytes a step is found, its slope within 5 %."""
    for device in _devices():
        with _run(device, "sgd", STEPS, "leak", None) as run:
            yield from _growth(run, device, LEAK)


def activations() -> Iterator[Answer]:
    """Losses kept with their graphs hold the activations: 512 × 512 and 512 × 64 floats, and the input."""
    for device in _devices():
        with _run(device, "sgd", STEPS, "activations", None) as run:
            found = run.findings()
            told = "memory_growth" in set(found.kind)
            yield f"{device}: growth is found", True, told, told


def healthy() -> Iterator[Answer]:
    """Three healthy runs have no leak."""
    for device in _devices():
        for optimizer in ("sgd", "momentum", "adamw"):
            with _run(device, optimizer, STEPS, "", None) as run:
                leaks = [kind for kind in run.findings().kind if kind == "memory_growth"]
                yield f"{device} {optimizer}: leaks", 0, len(leaks), not leaks


def fragmented() -> Iterator[Answer]:
    """A pool in pieces, written by hand: 400 MiB free, in blocks of 150 MiB at most, when 200 MiB are asked."""
    sizes = [(150, "inactive"), (1, "active_allocated"), (150, "inactive"), (1, "active_allocated"), (100, "inactive")]
    blocks = [{"size": n * MiB, "requested_size": n * MiB, "state": state} for n, state in sizes]
    segment = {"device": 0, "address": 4096, "total_size": 402 * MiB, "segment_pool_id": (0, 0), "blocks": blocks}
    oom = {"action": "oom", "addr": 0, "size": 200 * MiB, "device_free": 0, "time_us": 1, "frames": []}
    folder = Path(tempfile.mkdtemp(prefix="stepscope-truth-"))
    (folder / "oom.pickle").write_bytes(pickle.dumps({"segments": [segment], "device_traces": [[oom]]}))
    stepscope.ingest_traces(folder / "oom.pickle", folder / "run")
    with stepscope.open_run(folder / "run") as run:
        found = run.findings()
    said = "asked 200 MiB; 400 MiB reserved but free, largest block 150 MiB"
    told = " ".join(found[found.kind == "fragmentation"].sentence)
    yield "fragmentation, in words", said, told, said in told


def _growth(run: stepscope.Run, device: str, wanted: int) -> Iterator[Answer]:
    found = run.findings()
    rows = found[found.kind == "memory_growth"].evidence_rows.tolist()
    slope = json.loads(rows[0])[0]["bytes_per_step"] if rows else None
    yield f"{device}: bytes a step", wanted, slope, slope is not None and abs(slope / wanted - 1) <= 0.05


EXPERIMENTS: dict[str, Callable[[], Iterator[Answer]]] = {
    one.__name__: one for one in (states, leak, activations, healthy, fragmented)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.groundtruth.memory")
    parser.add_argument("--only", choices=EXPERIMENTS, help="run one experiment")
    only = parser.parse_args().only
    wrong = 0
    for name in [only] if only else EXPERIMENTS:
        for what, wanted, got, right in EXPERIMENTS[name]():
            wrong += not right
            print(f"{'right' if right else 'WRONG'}  {name}: {what}: wanted {wanted}, got {got}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
