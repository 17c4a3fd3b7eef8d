"""Every query in ``analyze/sql`` says what it answers, takes what it says, and returns the columns it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepscope.api import open_run
from stepscope.ingest.schema import CAPTURE_TABLES
from stepscope.pipeline import ingest

from ..support import kineto

FOLDER = Path(__file__).parents[2] / "analyze" / "sql"
QUERIES = sorted(path.stem for path in FOLDER.glob("*.sql"))
OF_A_CAPTURE = [name for name in QUERIES if name.startswith("capture_") or name.endswith("_lanes")]
PARAMETERS = {
    "rank_": 0,
    "capture_": 0,
    "device_": "cpu",
    "source_": "rank0.json",
    "from_ns": kineto.BASE_NS,
    "to_ns": kineto.BASE_NS + 10**9,
    "limit_events": 10,
    "limit_ranks": 2,
    "limit_steps": 3,
    "limit_batches": 4,
    "rank": 0,
    "limit": 5,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    ingest(kineto.write(folder / "rank0.json", kineto.training()), folder / "run")
    with open_run(folder / "run") as opened:
        yield opened


def header_of(name):
    lines = (FOLDER / f"{name}.sql").read_text().splitlines()
    comment = [
        line[2:].strip() for line in lines[: next(i for i, line in enumerate(lines) if not line.startswith("--"))]
    ]
    text = " ".join(comment)
    assert "Parameters:" in text, f"{name}.sql does not say what it takes"
    assert "Columns:" in text, f"{name}.sql does not say what it returns"
    return text


@pytest.mark.parametrize("name", QUERIES)
def test_the_header_tells_parameters_and_columns(name):
    text = header_of(name)
    told = text[text.index("Parameters:") : text.index("Columns:")]
    body = "\n".join(line for line in (FOLDER / f"{name}.sql").read_text().splitlines() if not line.startswith("--"))
    for parameter in set(re.findall(r"\$([a-z_]+)\b", re.sub(r"'[^']*'", "", body))):
        assert parameter in told, f"{name}.sql takes ${parameter} and does not say so"


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in OF_A_CAPTURE])
def test_the_query_runs_and_returns_the_columns_it_names(run, name):
    body = (FOLDER / f"{name}.sql").read_text()
    used = set(re.findall(r"\$([a-z_]+)\b", "\n".join(line for line in body.splitlines() if not line.startswith("--"))))
    answer = run.query(name, **{parameter: PARAMETERS[parameter] for parameter in used})
    told = header_of(name).split("Columns:", 1)[1]
    assert [column for column in answer.columns if not re.search(rf"\b{column}\b", told)] == []
    answer.fetchall()


@pytest.mark.parametrize("table", CAPTURE_TABLES)
def test_the_tables_of_a_capture_have_the_columns_of_the_schema(run, table):
    for path in (run.path / table).rglob("*.parquet"):
        import pyarrow.parquet as pq

        assert pq.read_schema(path).names == CAPTURE_TABLES[table].names
