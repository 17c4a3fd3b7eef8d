"""Spans of a CPU backend against what torch's recorder told: by hand, as a property, and from trace to table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyze.enqueued import Entries, Spans, assign
from stepscope.analyze.groups import role
from stepscope.api import open_run
from stepscope.pipeline import ingest

from ..support import kineto

US = 1_000


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), groups=st.integers(1, 3), before=st.integers(0, 5), after=st.integers(0, 5))
def test_every_span_finds_its_entry(seed, groups, before, after):
    """Two threads serve each group in turn; the recorder also knows what came before and after the window."""
    random = np.random.default_rng(seed)
    count, busy = 40, np.zeros((groups, 2), np.int64)
    now, made = 0, []
    for one in range(count):
        now += int(random.choice([30 * US, 3_000 * US]))
        group, kind = int(random.integers(groups)), ("gloo:all_reduce", int(random.choice([8, 64])))
        thread = int(busy[group].argmin())
        start = max(now, int(busy[group, thread])) + int(random.integers(5 * US, 20 * US))
        busy[group, thread] = start + int(random.integers(100 * US, 900 * US))
        made.append((now, str(group), kind, start, group * 2 + thread, one))
        if one in (before, count - after):  # the steps before and after: all is done when they end
            now = int(busy.max()) + US
    entries = Entries(np.array([m[0] for m in made]), [m[1] for m in made], [m[2] for m in made])
    seen = sorted(made[before : count - after], key=lambda m: m[3])
    spans = Spans(np.array([m[3] for m in seen]), np.array([m[4] for m in seen]), [m[2] for m in seen])
    found = assign(spans, entries)
    assert found.tolist() == [m[5] for m in seen]


def test_an_entry_that_begins_later_is_not_taken():
    spans = Spans(np.array([100 * US, 900 * US]), np.array([1, 1]), ["a", "a"])
    entries = Entries(np.array([0, 90 * US, 890 * US, 950 * US]), ["0"] * 4, ["a"] * 4)
    assert assign(spans, entries).tolist() == [1, 2]


def test_from_the_header_to_the_table(tmp_path):
    """Two groups do the same at once; their threads tell them apart. all_gather's bytes come from the recorder."""
    told = {
        "group": ["1", "2", "1", "2"],
        "seq": [7, 3, 8, 4],
        "name": ["gloo:all_gather"] * 4,
        "created_ns": [kineto.BASE_NS + us * US for us in (100, 110, 500, 510)],
        "inputs": [8] * 4,
        "outputs": [16, 24, 16, 24],
    }
    config = [{"pg_name": "1", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": [0, 1]}]
    config.append({"pg_name": "2", "pg_desc": "mesh_dp_shard", "pg_size": 3, "ranks": [0, 2, 4]})

    def gather(start, thread):
        event = kineto.span(
            "user_annotation", "gloo:all_gather", start, 100, **{"Input Dims": [[8]], "Input type": ["float"]}
        )
        return {**event, "tid": thread}

    events = [kineto.step(0, 50, 900), kineto.span("cpu_op", "aten::mm", 60, 30)]
    events += [gather(120, 501), gather(125, 502), gather(520, 501), gather(530, 502)]
    header = kineto.header(rank=0, world_size=6)["distributedInfo"] | {"pg_config": config}
    path = kineto.write(
        tmp_path / "rank0.json", events, distributedInfo=header, stepscope={"rank": 0, "enqueued": told}
    )
    ingest(path, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        rows = run.sql("select pg, seq, bytes, group_size from collectives order by start_ns").fetchall()
        assert rows == [("1", 7, 64, 2), ("2", 3, 96, 3), ("1", 8, 64, 2), ("2", 4, 96, 3)]
        assert run.sql("select pg, role, size, members from groups order by pg").fetchall() == [
            ("1", "tensor", 2, "[0, 1]"),
            ("2", "data", 3, "[0, 2, 4]"),
        ]


def test_without_the_recorder_one_group_is_the_world_and_two_are_unknown(tmp_path):
    def sizes(config):
        event = kineto.span("user_annotation", "gloo:barrier", 120, 100)
        header = kineto.header(rank=0, world_size=2)["distributedInfo"] | {"pg_config": config}
        folder = tmp_path / str(len(config))
        path = kineto.write(folder / "rank0.json", [kineto.step(0, 50, 900), event], distributedInfo=header)
        ingest(path, folder / "run")
        with open_run(folder / "run") as run:
            return run.sql("select group_size from collectives").fetchall()

    world = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}
    assert sizes([world]) == [(2,)]
    assert sizes([world, {"pg_name": "1", "pg_desc": "", "pg_size": 1, "ranks": [0]}]) == [(None,)]


@pytest.mark.parametrize(
    ("description", "wanted"),
    [
        ("mesh_dp", "data"),
        ("mesh_tp", "tensor"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", "pipeline"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "expert"),
        ("mesh_cp", "context"),
        ("default_pg", None),
        ("update", None),
    ],
)
def test_roles(description, wanted):
    assert role(description) == wanted
