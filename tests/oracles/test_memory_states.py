"""Real training on the CPU: gradients and optimizer state are known to the byte, and so is what is alive at the peak."""

from __future__ import annotations

import pytest

from stepscope.api import open_run
from stepscope.pipeline import ingest

torch = pytest.importorskip("torch")

OPTIMIZERS = {  # bytes of state a parameter element, and a parameter tensor
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), 0, 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 4, 0),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.1), 8, 4),  # two moments; a step counter of its own
}


@pytest.fixture(scope="module", params=OPTIMIZERS)
def trained(request, tmp_path_factory):
    make, each, counters = OPTIMIZERS[request.param]
    folder = tmp_path_factory.mktemp("memory")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(96, 160), torch.nn.ReLU(), torch.nn.Linear(160, 32))
    optimizer = make(model.parameters())
    batch = torch.randn(48, 96)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as prof:
        for step in range(3):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                model(batch).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    prof.export_chrome_trace(str(folder / "rank0.json"))
    ingest(folder / "rank0.json", folder / "run")
    elements, tensors = sum(p.numel() for p in model.parameters()), len(list(model.parameters()))
    with open_run(folder / "run") as run:
        yield run, 4 * elements, each * elements + counters * tensors


def test_gradients_and_optimizer_state_to_the_byte(trained):
    run, gradients, state = trained
    top = dict(run.sql("select category, max(bytes) from memory_lines group by category").fetchall())
    assert top["gradient"] == gradients
    assert top.get("optimizer", 0) == state


def test_the_peak_is_the_profilers_own_and_its_parts_sum_to_it(trained):
    run, _, _ = trained
    ((peak, told, parts),) = run.sql(
        "select peak, (select max(allocated) from memory), (select sum(bytes) from memory_alive) from memory_peaks"
    ).fetchall()
    assert peak == told == parts
    lines = "select max(n) from (select sum(bytes) as n from memory_lines group by t_ns)"
    assert run.sql(lines).fetchall() == [(peak,)]
