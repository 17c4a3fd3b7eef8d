"""Verdicts on hand-made flight-recorder dumps in which one thing is wrong."""

from __future__ import annotations

import itertools
import json
import os
import pickle
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepscope.analyze.hang import Verdict, judge
from stepscope.cli.hang import command
from stepscope.ingest.flight_recorder import read_dumps

WORLD = [0, 1, 2, 3]


def entry(seq: int, op: str = "all_reduce", size: int = 8, state: str = "scheduled", group: str = "0", **more) -> dict:
    return {
        "pg_id": int(group),
        "process_group": (group, "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[size]],
        "input_dtypes": ["Float"],
        "output_sizes": [[size]],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": False,
        **more,
    }


def dump(enqueued: int, completed: int, entries: list[dict], ranks: list[int] = WORLD, status: bool = True) -> dict:
    told = {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(ranks)}},
        "entries": entries,
    }
    if status:
        told["pg_status"] = {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
        }
    return told


def write(folder: Path, dumps: dict[int, dict], name: str = "_dump_{}", as_json: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, told in dumps.items():
        (folder / name.format(rank)).write_bytes(json.dumps(told).encode() if as_json else pickle.dumps(told, 2))
    return folder


def verdict(folder: Path) -> Verdict:
    dumps, problems = read_dumps([str(folder)])
    assert problems == []
    verdicts = [judge(list(order)) for order in itertools.permutations(dumps)]
    assert all(one == verdicts[0] for one in verdicts)  # the order of the files is no evidence
    return verdicts[0]


def hung(status: bool = True) -> dict[int, dict]:
    """Rank 2 never asks for #6."""
    waiting = dump(6, 5, [entry(5, state="completed"), entry(6)], status=status)
    return {0: waiting, 1: waiting, 2: dump(5, 5, [entry(5, state="completed")], status=status), 3: waiting}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", ["_dump_{}", "node17-3_dump_{}", "trace_rank_{}_of_4.pickle", "host9_{}.json"])
def test_a_rank_that_never_joins_is_missing(tmp_path, name, as_json):
    found = verdict(write(tmp_path, hung(), name, as_json))
    assert (found.kind, found.ranks, found.group, found.seq, found.op) == ("missing", [2], "0", 6, "all_reduce")
    assert found.evidence == [
        "Ranks 0, 1 and 3 wait in all_reduce #6 of group 0 (default_pg); rank 2 asked for nothing after #5."
    ]


def test_old_dumps_without_status_give_the_same_answer(tmp_path):
    found = verdict(write(tmp_path, hung(status=False)))
    assert (found.kind, found.ranks, found.seq) == ("missing", [2], 6)


def test_a_ring_that_starts_later_is_no_lateness(tmp_path):
    dumps = hung()
    dumps[0]["entries"] = dumps[0]["entries"][1:]
    dumps[2]["entries"] = []
    found = verdict(write(tmp_path, dumps))
    assert (found.kind, found.ranks, found.seq) == ("missing", [2], 6)


def test_a_rank_without_a_dump_that_others_wait_for(tmp_path):
    dumps = hung()
    del dumps[2]
    found = verdict(write(tmp_path, dumps))
    assert (found.kind, found.ranks, found.missing_dumps) == ("missing", [2], [2])
    assert found.sentence == "Rank 2 left no dump, and others wait for it."


def test_a_rank_whose_device_stops_completes_less_than_its_group(tmp_path):
    ahead = dump(9, 8, [entry(9)])
    found = verdict(write(tmp_path, {0: ahead, 1: dump(9, 6, [entry(7), entry(8), entry(9)]), 2: ahead, 3: ahead}))
    assert (found.kind, found.ranks, found.seq) == ("stopped", [1], 7)


@pytest.mark.parametrize(("op", "size"), [("all_gather", 8), ("all_reduce", 16)])
def test_the_rank_that_asks_for_something_else_is_named(tmp_path, op, size):
    same = dump(3, 2, [entry(3)])
    found = verdict(write(tmp_path, {0: same, 1: same, 2: same, 3: dump(3, 2, [entry(3, op, size)])}))
    assert (found.kind, found.ranks, found.seq) == ("mismatched", [3], 3)


def test_uneven_all_to_all_is_no_mismatch(tmp_path):
    dumps = {rank: dump(3, 2, [entry(3, "all_to_all", 8 + rank)]) for rank in WORLD}
    found = verdict(write(tmp_path, dumps))
    assert (found.kind, found.ranks, found.seq) == ("stuck", [], 3)


def test_groups_entered_in_different_orders_deadlock(tmp_path):
    def told(first: str) -> dict:
        groups = {name: {"name": name, "desc": "", "ranks": "[0, 1]"} for name in "12"}
        status = {
            name: {"last_enqueued_collective": 1 if name == first else 0, "last_completed_collective": 0}
            for name in "12"
        }
        return {"pg_config": groups, "pg_status": status, "entries": [entry(1, group=first)]}

    found = verdict(write(tmp_path, {0: told("1"), 1: told("2")}))
    assert (found.kind, found.ranks) == ("deadlock", [0, 1])


def test_waiting_ends_at_the_rank_that_waits_for_nothing(tmp_path):
    """Rank 0 receives from 1; 1 is in a collective with 2; 2 hangs: neither 0 nor 1 is to blame."""
    groups = {"1": {"ranks": "[0, 1]"}, "2": {"ranks": "[1, 2]"}}
    recv = entry(1, "recv 0<-1", group="1", is_p2p=True, p2p_seq_id=4)
    quiet = {"last_enqueued_collective": 7, "last_completed_collective": 7}
    dumps = {
        0: {
            "pg_config": {"1": groups["1"]},
            "pg_status": {"1": {"last_enqueued_collective": 4, "last_completed_collective": 3}},
            "entries": [recv],
        },
        1: {
            "pg_config": groups,
            "pg_status": {"1": quiet, "2": {"last_enqueued_collective": 8, "last_completed_collective": 7}},
            "entries": [entry(8, group="2")],
        },
        2: {"pg_config": {"2": groups["2"]}, "pg_status": {"2": quiet}, "entries": []},
    }
    found = verdict(write(tmp_path, dumps))
    assert (found.kind, found.ranks) == ("missing", [2])


def test_a_job_that_waits_for_nothing_is_healthy(tmp_path):
    done = dump(5, 5, [entry(5, state="completed")])
    assert verdict(write(tmp_path, dict.fromkeys(WORLD, done))).kind == "healthy"


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_hostile_or_foreign_file_costs_only_itself(tmp_path):
    folder = write(tmp_path / "dumps", hung())
    (folder / "_dump_3").write_bytes(pickle.dumps({"entries": Hostile(tmp_path / "built")}))
    (folder / "_dump_7").write_text("{}")
    (folder / "notes.log").write_text("Fault ranks: [2]")
    answer = CliRunner().invoke(command, [str(folder), "--json"])
    told = json.loads(answer.stdout)
    assert answer.exit_code == 0
    assert (told["kind"], told["ranks"], told["missing_dumps"]) == ("missing", [2, 3], [3])
    assert len(told["problems"]) == 2
    assert "notes.log" not in answer.output
    assert not (tmp_path / "built").exists()


def test_a_dump_named_after_a_rank_outside_its_groups_is_refused(tmp_path):
    write(tmp_path, {0: hung()[0], 9: hung()[1]})
    dumps, problems = read_dumps([str(tmp_path)])
    assert [one.rank for one in dumps] == [0]
    assert "named after rank 9, but its group 0 has the ranks [0, 1, 2, 3]" in problems[0]
