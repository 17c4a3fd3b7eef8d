"""The command line as a user meets it: exit codes, sentences, and what goes to which stream."""

from __future__ import annotations

import csv
import inspect
import io
import json
import subprocess
import sys

import pytest

from ..support import kineto


def stepscope(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    for rank in range(2):
        kineto.write(folder / "t" / f"rank{rank}.json", kineto.training(), rank=rank, world_size=3)
    (folder / "t" / "rank2.json").write_text("{")
    done = stepscope("ingest", folder / "t", "-o", folder / "run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "2 of 3 ranks; missing 2"
    assert "quarantined" in done.stdout
    return folder / "run"


def test_one_sentence_and_no_traceback_for_what_users_get_wrong(tmp_path, run):
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "file").write_text("")
    cases = [
        (1, ["ingest", tmp_path / "nowhere", "-o", tmp_path / "r"], "nowhere"),
        (1, ["ingest", tmp_path / "notes.txt", "-o", tmp_path / "r"], "not JSON"),
        (1, ["analyze", tmp_path], "No trace"),
        (1, ["report", run, "-o", tmp_path / "file" / "x.html"], "x.html"),
        (1, ["ingest", run.parent / "t", "-o", tmp_path / "file"], "file"),
        (2, ["sql", run, "selec 1"], "does not run"),
        (2, ["ingest", run.parent / "t"], "--out"),
        (2, ["frobnicate"], "frobnicate"),
    ]
    for code, arguments, part in cases:
        done = stepscope(*arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (arguments, done.stderr)
        assert part in done.stderr, (arguments, done.stderr)
        assert done.stdout == "" or code == 1


def test_debug_shows_the_traceback(tmp_path):
    done = stepscope("--debug", "ingest", tmp_path / "nowhere", "-o", tmp_path / "r")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_strict_makes_damage_fatal(run):
    assert stepscope("analyze", run).returncode == 0
    done = stepscope("analyze", run, "--strict")
    assert done.returncode == 1
    assert "rank2.json" in done.stderr


def test_sql_formats(run):
    query = "select rank, count(*) as steps, null as nothing from steps group by rank order by rank"
    rows = json.loads(stepscope("sql", run, query, "--format", "json").stdout)
    assert rows == [{"rank": rank, "steps": 4, "nothing": None} for rank in (0, 1)]
    table = list(csv.reader(io.StringIO(stepscope("sql", run, query, "--format", "csv").stdout)))
    assert table == [["rank", "steps", "nothing"], ["0", "4", ""], ["1", "4", ""]]
    assert "steps" in stepscope("sql", run, query).stdout


def test_json_of_traces_names_them_and_not_the_passing_run(tmp_path):
    trace = kineto.write(tmp_path / "rank0.json", kineto.training())
    assert json.loads(stepscope("analyze", trace, "--json").stdout)["run"] == str(trace)


def test_json_objects_have_a_name_for_every_column(run):
    done = stepscope("sql", run, "select 1 as a, 2 as a", "--format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "AS" in done.stderr


def test_json_is_a_versioned_envelope_and_nothing_else(run):
    answer = json.loads(stepscope("analyze", run, "--json").stdout)
    assert answer["schema"] == "stepscope/analysis/1"
    assert answer["coverage"] == "2 of 3 ranks; missing 2"
    assert answer["findings"]


def test_traces_can_be_analysed_and_reported_directly(run, tmp_path):
    assert "ranks" in stepscope("analyze", run.parent / "t").stdout
    done = stepscope("report", run.parent / "t", "-o", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").read_text().startswith("<!")


def test_a_chrome_trace_is_refused_unless_generic(tmp_path):
    events = [
        {"ph": "X", "cat": "mine", "name": "work", "ts": 10 * at, "dur": 5, "pid": 1, "tid": 1} for at in range(3)
    ]
    (tmp_path / "chrome.json").write_text(json.dumps({"traceEvents": events}))
    done = stepscope("analyze", tmp_path / "chrome.json")
    assert done.returncode == 1
    assert "--generic" in done.stderr
    assert stepscope("analyze", tmp_path / "chrome.json", "--generic").returncode == 0


def test_help_and_import_stay_light():
    code = (
        "import sys, stepscope, stepscope.cli\n"
        "heavy = {'torch', 'duckdb', 'pandas', 'matplotlib', 'pyarrow', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr == ""
    assert stepscope("--help").returncode == 0


def test_the_names_of_the_api_are_never_rooms():
    """A room that was imported hides what has its name."""
    import stepscope.api
    import stepscope.cli
    import stepscope.collect
    import stepscope.reports.html

    for name in stepscope.__all__:
        assert not inspect.ismodule(getattr(stepscope, name)), name
