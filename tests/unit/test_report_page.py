"""The page as text: its numbers are the run's, unknown is said, names are text, and it stays small."""

import html
import json
import re

import pytest

from stepscope.ingest.errors import StepscopeError
from stepscope.reports.book import Book, plain
from stepscope.reports.html import render, write_report

from ..support.fake_run import HOSTILE, MS, PARTS, T0, FakeRun, loader_bound


def evidence(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="evidence">(.*?)</script>', page, re.S)[1])


def visible(page: str) -> str:
    """Return the text outside scripts and styles."""
    bare = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    return html.unescape(re.sub(r"<[^>]+>", " ", bare))


@pytest.fixture(scope="module")
def run():
    return loader_bound()


@pytest.fixture(scope="module")
def page(run):
    return render(run)


def test_the_mean_ledger_is_what_paper_says(run):
    # Steps 1 to 38 are judged; (s % 5) ms over them is 2 ms in the mean.
    rows = {row["category"]: row for row in Book(run).rows("ledger_means")}
    expected = {**PARTS, "data_wait": PARTS["data_wait"] + 2 * MS}
    assert {name: row["mean_ns"] for name, row in rows.items()} == expected
    assert rows["data_wait"]["total_ns"] == 76 * 59 * MS
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    assert rows["data_wait"]["share"] == pytest.approx(59 * MS / sum(expected.values()))


def test_the_headline_is_what_paper_says(run):
    row = Book(run).rows("headline")[0]
    whole = sum(PARTS.values())
    assert row["steps_judged"] == 76
    assert row["steps_profiled"] == 80
    assert row["mean_step_ns"] == whole + 2 * MS
    assert row["median_step_ns"] == whole + 2 * MS
    assert row["worst_step_ns"] == whole + 4 * MS
    assert row["timed_steps"] == 1200
    assert (row["ranks"], row["world_size"], row["hosts"]) == (2, 2, 1)


def test_the_first_screen_has_verdict_coverage_and_three_findings(page):
    words = visible(page[: page.index('<nav aria-label="Sections">')])
    assert "data loading bounds this job" in words
    assert "2 of 2 ranks" in words
    assert "59.0 ms" in words
    assert "33.6 %" in words
    assert page.count('<article class="finding"') == 4
    assert "1 more finding" in words


def test_every_number_leads_to_sql_that_runs_and_gives_the_rows(run, page):
    known = evidence(page)
    asked = set(re.findall(r'data-show="([^"]+)"', page))
    assert asked <= set(known)
    for key in asked:
        entry = known[key]
        assert entry["definition"]
        assert "docs/definitions.md#" in entry["link"]
        rows = run.sql(entry["sql"]).fetchall()
        assert len(rows) == entry["total"]
        assert [[plain(value) for value in row] for row in rows[: len(entry["rows"])]] == entry["rows"]


def test_stamps_beyond_a_double_reach_the_page_exactly(page):
    row = evidence(page)["headline"]["rows"][0]
    assert str(T0) in row


def test_nothing_recorded_is_unknown_and_never_zero():
    page = render(FakeRun())
    words = visible(page)
    for what in ("Data loading was not recorded", "Memory was not recorded", "No ledger", "No timeline"):
        assert what in words
    assert not re.search(r"\b0(\.0+)? (ns|ms|%|B)\b", words)


def test_a_category_without_rows_is_named_as_unknown():
    run = loader_bound(ranks=1, steps=6)
    run.con.execute("delete from ledger where category = 'data_wait'")
    run.con.execute("delete from batches")
    run.con.execute("delete from timer")
    words = visible(render(run))
    assert "Not recorded in these traces, hence unknown and not zero: data loading." in words
    assert "Data loading was not recorded" in words


def test_a_bandwidth_without_sizes_is_unknown(page):
    broadcast = re.search(r"<tr>(?:(?!</tr>).)*broadcast.*?</tr>", page, re.S)[0]
    assert broadcast.count("unknown</td>") == 3  # bytes, algbw, busbw


def test_a_broken_sum_is_said_loudly():
    run = loader_bound(ranks=1, steps=4)
    run.checks[0] |= {"holds": False, "worst_ns": 12}
    words = visible(render(run))
    assert "A sum that must hold does not: ledger closes" in words


def hostile_run() -> FakeRun:
    run = loader_bound(ranks=1, steps=6)
    for table in ("kernels", "operators", "events"):
        run.con.execute(f"update {table} set name = ?", [HOSTILE])
    run.con.execute("update sources set source = ?, reason = ?", [HOSTILE, HOSTILE])
    run.con.execute("update quality set sentence = ?", [HOSTILE])
    run.con.execute("update collectives set op = ?", [HOSTILE])
    run.con.execute("update ranks set device_name = ?", [HOSTILE])
    for finding in run.found:
        finding |= {"sentence": HOSTILE, "advice": HOSTILE}
    return run


def test_a_hostile_name_is_text_everywhere():
    page = render(hostile_run())
    assert "<script>alert" not in page
    assert "<!--" not in page
    assert page.count("<script") == page.count("</script>") == 1 + 3 + 1  # evidence, charts, the page's own
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_a_page_of_64_ranks_stays_under_3_mb():
    page = render(loader_bound(ranks=64, steps=40, kernels=400, events=300))
    assert len(page.encode()) < 3_000_000
    assert "rank 63" in page


def test_a_cap_is_said():
    page = render(loader_bound(ranks=1, steps=4, kernels=250, events=4000))
    words = visible(page)
    assert "The first 200 of 250 rows" in words
    assert re.search(r"Its 10,000 longest of \d+,\d+ events are drawn", words)


def test_the_same_run_gives_the_same_bytes(run, page):
    assert render(run) == page


def test_the_page_asks_the_network_for_nothing(page):
    assert "default-src 'none'" in page
    # No element that loads anything; links may lead out.
    assert not re.search(r"<(link|img|iframe|object|embed|source|video|audio)\b|@import|url\((?!#)", page)
    assert not re.search(r"\b(src|srcset|action|poster)=", page)


def test_an_output_that_cannot_be_written_is_told(tmp_path, run):
    (tmp_path / "file").write_text("")
    with pytest.raises(StepscopeError, match="Cannot write the report"):
        write_report(run, tmp_path / "file" / "report.html")


def test_the_page_is_written_whole(tmp_path, run, page):
    path = write_report(run, tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8") == page
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
