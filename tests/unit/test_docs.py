"""The docs say what the code does: links, tables, kinds, rules, thresholds, and the README's own commands."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from stepscope import open_run
from stepscope.analyze.findings import finding, held, host_memory, idle, memory, straggler, trust
from stepscope.analyze.invariants import INVARIANTS
from stepscope.analyze.quality import RUN_QUALITY
from stepscope.api import Run
from stepscope.cli import VERBS
from stepscope.collect import Window, session
from stepscope.ingest import overruns, steps
from stepscope.ingest.schema import COMM_SPLIT, FLAGS, KINDS, LEDGER_CATEGORIES, TABLES
from stepscope.reports.book import DEFINITIONS
from stepscope.reports.sections import definitions

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
DEFINED = (ROOT / "docs" / "definitions.md").read_text()
PRELUDE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(320, 8), torch.randn(320, 1)), batch_size=16)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train_step(batch):
    inputs, target = batch
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), target).backward()
    optimizer.step()
"""


def prose(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), flags=re.M | re.S)


def anchors(path: Path) -> set[str]:
    """The fragments that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path.read_text()), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(heading: str) -> str:
    """The text under a heading of the definitions, up to the next one of the same or a higher level."""
    level = heading.split(" ")[0]
    return re.split(rf"^#{{1,{len(level)}}} ", DEFINED.split(f"\n{heading}\n")[1], flags=re.M)[0]


def rows(text: str) -> list[list[str]]:
    """The body of the first table."""
    table = re.search(r"^\|[-|]+\|$\n((?:^\|.*\|$\n?)+)", text, flags=re.M)
    assert table
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def firsts(heading: str) -> list[str]:
    """The first column of a section's first table, in its order."""
    return [row[0].strip("`") for row in rows(section(heading))]


def calls(folder: str, but: str = "") -> Iterator[ast.Call]:
    for path in sorted(path for path in (ROOT / folder).rglob("*.py") if path.name != but):
        yield from (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_docs_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if target.startswith("https://"):
            continue
        name, _, fragment = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not fragment or fragment in anchors(path), f"{page.name} links to {target}"


def test_every_anchor_of_the_report_is_a_heading() -> None:
    place = {"ask": 2, "ask_sql": 3}
    asked = [call for call in calls("reports", but="book.py") if called(call) in place]
    used = {ast.literal_eval(call.args[place[called(call)]]) for call in asked}
    used |= {anchor for _, anchor, _ in definitions._ENTRIES}
    assert {"steps", "ledger", "findings"} <= used
    assert used <= anchors(ROOT / "docs" / "definitions.md")
    assert DEFINITIONS.endswith("/docs/definitions.md")


def test_every_kind_of_finding_is_defined() -> None:
    place = {"Finding": 0}  # where the kind stands among the arguments: of Finding, and of what passes it on
    for path in (ROOT / "analyze" / "findings").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "kind" in (names := [one.arg for one in node.args.args]):
                place[node.name] = names.index("kind")
    said = [call.args[place[called(call)]] for call in calls("analyze/findings") if called(call) in place]
    assert set(firsts("## Findings")) == {one.value for one in said if isinstance(one, ast.Constant)}


def test_every_quality_rule_is_defined() -> None:
    problems = [call for folder in ("ingest", "analyze") for call in calls(folder) if called(call) == "Problem"]
    rules = {ast.literal_eval(call.args[0]) for call in problems if isinstance(call.args[0], ast.Constant)} | set(FLAGS)
    columns = {*RUN_QUALITY.names, *(name for schema in TABLES.values() for name in schema.names), *TABLES}
    for name in ("derive.py", "quality.py"):  # there, every such word that names no column is a rule
        for node in ast.walk(ast.parse((ROOT / "analyze" / name).read_text())):
            if isinstance(node, ast.Constant) and re.fullmatch(r"[a-z]+(_[a-z]+)+", str(node.value)):
                rules |= {node.value} - columns
    rules -= {"collective_ops", "dtype_bytes", *(path.stem for path in (ROOT / "analyze" / "sql").glob("*.sql"))}
    assert set(firsts("## Quality")) == rules


def test_lists_are_complete() -> None:
    assert firsts("## Invariants") == [one.name for one in INVARIANTS]
    assert firsts("## Physics") == list(FLAGS)
    assert firsts("## Ledger") == [LEDGER_CATEGORIES[0], *COMM_SPLIT, *LEDGER_CATEGORIES[1:]]
    kinds = next(row[2] for row in rows(section("### Table `events`")) if row[0] == "`kind`")
    assert re.findall(r"`(\w+)`", kinds) == list(KINDS)


def test_thresholds_are_those_of_the_code() -> None:
    when = {row[0].strip("`"): row[1] for row in rows(section("## Findings"))}
    assert f"{100 * finding.LEAST_SHARE:.0f} %" in when["loader_bound"]
    assert f"{100 * idle.LEAST_UNEXPLAINED:.0f} %" in when["idle_unexplained"]
    assert f"{100 * straggler.LEAST_WAIT:.0f} %" in when["straggler"]
    assert f"{straggler.CHANCE}" in when["straggler"]
    assert f"{100 * memory.NEAR_LIMIT:.0f} %" in when["memory_limit"]
    assert f"{100 * host_memory.NEAR_LIMIT:.0f} %" in when["shared_memory_limit"]
    assert f"{100 * host_memory.NEAR_LIMIT:.0f} %" in when["host_memory_limit"]
    assert f"{100 * held.LEAST_HELD:.0f} %" in when["activations_held"]
    assert f"{100 * held.LEAST_SAVING:.0f} %" in when["optimizer_replicated"]
    assert f"{memory.LEAST_READINGS} or more readings" in when["memory_growth"]
    assert f"{memory.BLOCKS} blocks, by {100 * memory.LEAST_GROWTH:.0f} %" in when["memory_growth"]
    assert f"fewer than {trust.LEAST_STEPS} complete" in when["too_short"]
    assert f"{overruns.TOLERANCE_NS // 1000} µs" in section("## Physics")
    assert f"took {steps.START_SKEW_NS // 10**6} ms or more and over {steps.START_SKEW} times" in section("## Steps")
    for heading in ("## Always-on timer", "## Windows"):
        assert f"at most every {session.TICK_NS // 10**6} ms" in section(heading)
    assert f"more than {Window().slow:.0f} times the running median" in section("## Windows")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the README's Python ran, block by block, around a small real training loop."""
    folder = tmp_path_factory.mktemp("readme")
    for block in blocks(ROOT / "README.md", "python"):
        done = subprocess.run(
            [sys.executable, "-c", PRELUDE + block], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert "stepscope's" not in done.stderr.lower(), done.stderr
    return folder


@pytest.fixture
def run(recorded: Path) -> Iterator[Run]:
    with open_run(recorded / "runs" / "exp1") as opened:
        yield opened


def test_the_readme_records_and_reports(recorded: Path, run: Run) -> None:
    assert run.sql("select count(*), count(wait_ns) from timer").fetchall() == [(20, 20)]
    assert run.sql("select count(*) >= 3 from steps where source = 'profiler' and complete").fetchall() == [(True,)]
    assert (recorded / "report.html").stat().st_size > 10_000
    with open_run(recorded / "runs" / "exp2") as marked:
        assert marked.sql("select count(*) from timer").fetchall() == [(20,)]


def test_every_table_has_its_columns_and_types(run: Run) -> None:
    documented = re.findall(r"^### Table `(\w+)`$", DEFINED, flags=re.M)
    assert set(TABLES) | {
        "captures",
        "ranks",
        "judged",
        "blame",
        "lineage",
        "loader_passes",
        "fits",
        "placements",
        "findings",
        "invariants",
    } == set(documented)
    run.findings()
    for table in documented:
        there = [(name, kind) for name, kind, *_ in run.sql(f"describe {table}").fetchall()]
        assert [(row[0].strip("`"), row[1]) for row in rows(section(f"### Table `{table}`"))] == there, table


def test_the_sql_of_the_docs_runs(run: Run) -> None:
    queries = [query for page in PAGES for query in blocks(page, "sql")]
    queries += [words[3] for words in commands() if words[:2] == ["stepscope", "sql"]]
    assert len(queries) >= 4
    for query in queries:
        assert run.sql(query).fetchall()


def commands() -> Iterator[list[str]]:
    for block in blocks(ROOT / "README.md", ""):
        for line in block.splitlines():
            yield shlex.split(line.partition(">")[0], comments=True)


def test_the_commands_of_the_readme_parse() -> None:
    seen = set()
    for words in commands():
        if words and words[0] == "stepscope":
            verb, *arguments = words[1:]
            command = import_module(f"stepscope.cli.{verb.replace('-', '_')}").command
            command.make_context(verb, arguments)
            seen.add(verb)
    assert seen == set(VERBS) - {"demo"}  # `make demo` is that one


def test_make_has_the_targets() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.M))
    for page in PAGES:
        assert set(re.findall(r"`?\bmake ([a-z]+)\b(?=`|    #)", page.read_text())) <= targets, page.name
