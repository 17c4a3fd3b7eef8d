"""Ways to hold the command line wrong: nothing of the user's is lost, and the answer is one sentence."""

from __future__ import annotations

import json
import os

import pytest

from stepscope import StepscopeError
from stepscope.api import open_run
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
        assert json.loads(trace.read_text())["traceEvents"] and json.loads((run / "run.json").read_text())
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
