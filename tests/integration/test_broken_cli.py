"""Ways to hold the command line wrong: nothing of the user's is lost, and the answer is one sentence."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from stepscope import StepscopeError
from stepscope.api import open_run
from stepscope.collect.host import rank_and_world
from stepscope.pipeline import ingest

from ..support import kineto
from .test_cli import stepscope


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    ingest(str(kineto.write(folder / "t.json", kineto.training())), folder / "run")
    return folder / "run"


def test_a_report_takes_the_place_of_nothing_but_a_report(tmp_path, run):
    with open_run(run) as opened:
        trace = kineto.write(tmp_path / "trace.json", kineto.training())
        os.mkfifo(tmp_path / "pipe")
        for precious in (trace, run / "run.json", tmp_path / "pipe"):
            with pytest.raises(StepscopeError, match="left alone"):
                opened.report(precious)
        assert json.loads(trace.read_text())["traceEvents"]
        assert json.loads((run / "run.json").read_text())
        with pytest.raises(StepscopeError, match="name"):
            opened.report("")
        page = tmp_path / "report.html"
        page.touch()
        for _ in range(2):
            opened.report(page)
        assert page.read_text().startswith("<!doctype html>")


def test_a_query_that_fails_on_the_way_is_told_in_a_sentence(run):
    for style in ("table", "json", "csv"):
        done = stepscope("sql", run, "select cast(kind as int) from events", "--format", style)
        assert (done.returncode, done.stderr.splitlines()[0][:36]) == (2, "stepscope: That query does not run: ")
        assert "Traceback" not in done.stderr


def test_json_answers_are_json(run):
    """Neither infinities nor NaN are; unknown is null."""
    query = "select 1.0 / 0 as a, 'nan'::double as b, [1.5, 'inf'::double] as c, {'d': -1.0 / 0} as e"
    done = stepscope("sql", run, query, "--format", "json")
    assert json.loads(done.stdout, parse_constant=pytest.fail) == [
        {"a": None, "b": None, "c": [1.5, None], "e": {"d": None}}
    ]


def test_a_run_among_other_targets_is_not_silently_left_out(run):
    for verb in ("analyze", "report"):
        done = stepscope(verb, run, run.parent / "t.json")
        assert (done.returncode, done.stderr) == (
            2,
            f"stepscope: {run} is a run, which is read on its own. Name it alone, or only traces.\n",
        )


def test_an_empty_name_is_not_the_current_directory(tmp_path, run):
    """As in ``-o "$UNSET"``."""
    done = stepscope("ingest", run.parent / "t.json", "-o", "", cwd=tmp_path)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_and_kernels_do_not_steer_the_terminal(tmp_path):
    """Names that are not UTF-8, and such as hold escape sequences: on disk as in the trace."""
    copies = [kineto.span("gpu_memcpy", "Memcpy HtoD \x1b[2J", 1000 + 100 * i, 50, correlation=i) for i in range(5)]
    text = kineto.document(copies)
    for name in (b"\xff.json", b"a\x1b]0;title\x07.json"):
        (tmp_path / os.fsdecode(name)).write_text(text + " " * len(name))
    (tmp_path / "\x1b[31mred.json").write_text("{")
    assert stepscope("ingest", tmp_path, "-o", tmp_path / "run").returncode == 0
    answers = [stepscope("report", tmp_path / "run", "-o", tmp_path / "r.html"), stepscope("analyze", tmp_path / "run")]
    for done in answers:
        assert (done.returncode, done.stderr) == (0, "")
        assert "Memcpy" in done.stdout
        assert not set(done.stdout) & {"\x1b", "\x07"}
    with open_run(tmp_path / "run") as run:
        names = [os.path.basename(name) for (name,) in run.sql("select source from sources").fetchall()]
    assert sorted(names) == ["\x1b[31mred.json", "\\xff.json", "a\x1b]0;title\x07.json"]


def test_an_encoding_without_the_characters_is_no_failure(run):
    done = stepscope("analyze", run, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "Mean step 1.00 ms" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_a_full_disk_is_told_in_a_sentence(tmp_path, run):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", "analyze", str(run)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "No space left" in done.stderr
    limited = [
        "sh",
        "-c",
        'ulimit -f 2; exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "stepscope",
        "ingest",
    ]  # files to 1 KiB
    for traces in ([run.parent / "t.json"], [run.parent / "t.json", run.parent / "again.json"]):
        (run.parent / "again.json").write_text((run.parent / "t.json").read_text() + " ")
        done = subprocess.run([*limited, *traces, "-o", tmp_path / "r"], capture_output=True, text=True)
        assert (done.returncode, "Traceback" in done.stderr, "File too large" in done.stderr) == (1, False, True), (
            done.stderr
        )


@pytest.mark.parametrize("table", ["timer", "sources", "events", "steps", "ledger"])
@pytest.mark.parametrize("content", [b"", b"PAR1" + bytes(90) + b"PAR1"], ids=["empty", "hollow"])
def test_a_damaged_file_of_a_run_costs_only_itself(tmp_path, run, table, content):
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    damaged = next((copy / table).glob("rank=*/*.parquet"), copy / table / "rank=00000" / "x.parquet")
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(content)
    with open_run(copy) as opened:
        ((sentence,),) = opened.sql("select sentence from quality where rule = 'run_file_damaged'").fetchall()
        assert str(damaged) in sentence
        assert not opened.sql("from invariants where not holds").fetchall()
        opened.report(tmp_path / "report.html")
    done = stepscope("analyze", copy, "--strict")
    assert (done.returncode, damaged.name in done.stderr) == (1, True), done.stderr
    if table != "timer":
        ingest(str(run.parent / "t.json"), copy)
        with open_run(copy) as healed, open_run(run) as before:
            assert healed.sql("from ledger").fetchall() == before.sql("from ledger").fetchall()


def test_traces_may_lie_in_the_run_directory_itself(tmp_path):
    kineto.write(tmp_path / "t.json", kineto.training())
    for fresh in (1, 0):
        assert len(ingest(str(tmp_path), tmp_path).records) == fresh
    with open_run(tmp_path) as opened:
        assert opened.sql("select source from sources").fetchall() == [(str(tmp_path / "t.json"),)]


def test_a_rank_in_the_environment_beyond_counting_is_none(monkeypatch):
    monkeypatch.setenv("RANK", "9" * 30)
    monkeypatch.setenv("WORLD_SIZE", "9" * 30)
    assert rank_and_world() is None
