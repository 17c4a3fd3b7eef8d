import io

from rich.console import Console

from stepscope.reports.terminal import print_report

from ..support.fake_run import HOSTILE, FakeRun, loader_bound


def printed(run) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_report(run, console)
    return console.file.getvalue()


def test_verdict_ledger_and_findings_are_printed():
    text = printed(loader_bound())
    assert text.startswith("The loop waits 59.0 ms of every 176 ms step")
    assert "Mean step 176 ms over 76 of 80 profiled steps." in text
    assert any(line.split() == ["■", "data", "loading", "59.0", "ms", "33.6", "%"] for line in text.splitlines())
    assert "Would win up to 59.0 ms a step, 33.6 % of it. Confidence: high." in text


def test_the_bar_is_as_long_as_the_step():
    bar = next(line for line in printed(loader_bound()).splitlines() if line.startswith("█"))
    assert len(bar) == 60


def test_a_hostile_sentence_does_not_steer_the_terminal():
    run = loader_bound(ranks=1, steps=4)
    run.found[1] |= {"sentence": HOSTILE, "advice": "[bold red]not markup[/] \x1b]0;title\x07"}
    text = printed(run)
    assert "\x1b" not in text
    assert "[bold red]not markup[/]" in text


def test_an_empty_run_says_so():
    assert "No step was profiled." in printed(FakeRun())


def test_a_broken_sum_is_printed():
    run = loader_bound(ranks=1, steps=4)
    run.checks[0] |= {"holds": False, "worst_ns": 12}
    assert "BROKEN: ledger closes" in printed(run)
