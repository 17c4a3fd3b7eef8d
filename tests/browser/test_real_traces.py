"""Pages of real traces in a real browser, against the known right answers (ORACLES A and E)."""

import pytest

from stepscope.reports.html import write_report


@pytest.fixture
def opened_trace(shared_run, opened, tmp_path):
    return lambda trace: opened(write_report(shared_run(trace), tmp_path / "report.html"))


def test_the_input_bound_job_says_so_with_the_right_numbers(opened_trace):
    page = opened_trace("kineto-resnet50/num_workers_0")
    ledger = dict(
        zip(
            [text.split("\n")[0] for text in page.locator(".legend span").all_inner_texts()],
            page.locator(".legend em").all_inner_texts(),
            strict=True,
        )
    )
    assert ledger["data loading"] == "33.4 %"
    won = page.locator(".finding").first.locator(".won")
    assert won.locator("button").inner_text() == "59.3 ms"
    assert won.locator("button").get_attribute("title").startswith("59,2")  # 59 262 µs
    assert page.locator(".facts button").first.inner_text() == "178 ms"
    assert "data loader" in page.locator("h1").inner_text()


def test_the_healthy_loader_is_not_accused(opened_trace):
    page = opened_trace("kineto-resnet50/num_workers_4")
    assert "loader bound" not in " ".join(page.locator(".finding .foot").all_inner_texts())


def test_eight_ranks_are_drawn(opened_trace):
    page = opened_trace("param-dlrm")
    assert "8 of 8 ranks" in page.locator(".coverage").inner_text()
    assert page.locator("[data-axis=rank] svg g").count() == 8


def test_a_run_without_a_device_has_no_device_numbers(opened_trace):
    page = opened_trace("hta/rank_non_gpu")
    facts = dict(
        zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
    )
    assert facts["device busy"] == "no device"
    assert page.get_by_text("No kernel was recorded").is_visible()
