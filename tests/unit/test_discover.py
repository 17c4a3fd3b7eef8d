"""Paths, directories, globs and URIs -> the files to look at."""

import fsspec
import pytest

from stepscope.ingest.discover import Found, discover
from stepscope.ingest.errors import StepscopeError


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "d/b.json",
        "d/a.json.gz",
        "d/deep/er/c.pt.trace.json",
        "d/.hidden.json",
        "d/.git/x.json",
        "d/notes.txt",
        "d/run/run.json",
        "d/run/sessions/rank=00000/s.json",
        "d/run/raw/rank0.json",
        "other/run.json",
        "one.trace",
        "odd[0].json",
        "odd0.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return tmp_path


def sources(found):
    return [one.source for one in found]


def test_directory_is_walked(tree):
    (tree / "d/link").symlink_to(tree / "other", target_is_directory=True)
    (tree / "d/linked.json").symlink_to(tree / "one.trace")
    found = discover(["d"])
    assert sources(found) == [
        "d/a.json.gz",
        "d/b.json",
        "d/deep/er/c.pt.trace.json",
        "d/linked.json",
        "d/run/raw/rank0.json",
    ]
    assert not any(one.named for one in found)


def test_named_file_needs_no_ending_and_wins_over_its_directory(tree):
    assert discover(["one.trace"]) == [Found("one.trace", named=True)]
    found = discover(["d", "./d/b.json", str(tree / "d/b.json")])
    assert [one for one in found if one.named] == [Found("d/b.json", named=True)]
    assert len(found) == 4


def test_order_of_the_arguments_does_not_matter(tree):
    assert discover(["d", "one.trace"]) == discover(["one.trace", "d", "d"])


def test_a_literal_path_wins_over_a_glob(tree):
    assert discover(["odd[0].json"]) == [Found("odd[0].json", named=True)]
    (tree / "odd[0].json").unlink()
    assert discover(["odd[0].json"]) == [Found("odd0.json", named=False)]


def test_globs(tree):
    assert sources(discover(["d/*.json"])) == ["d/b.json"]
    assert sources(discover(["d/**/*.json"])) == [
        "d/b.json",
        "d/deep/er/c.pt.trace.json",
        "d/run/raw/rank0.json",
        "d/run/run.json",
        "d/run/sessions/rank=00000/s.json",
    ]
    assert sources(discover(["d/de*"])) == ["d/deep/er/c.pt.trace.json"]


@pytest.mark.parametrize("missing", ["nowhere.json", "nothing/", "no*.json", "memory://none/x.json", "file:///no/x"])
def test_missing_input_is_one_sentence(tree, missing):
    with pytest.raises(StepscopeError) as caught:
        discover(["d", missing])
    assert caught.value.exit_code == 1
    assert missing.removeprefix("file://") in str(caught.value)


def test_unknown_protocol(tree):
    with pytest.raises(StepscopeError, match="nosuch://x"):
        discover(["nosuch://x"])


def test_uris(tree):
    memory = fsspec.filesystem("memory")
    for name in ("/t/a.json", "/t/in/b.json.gz", "/t/.c.json", "/t/d.txt"):
        memory.pipe(name, b"{}")
    assert sources(discover(["memory://t"])) == ["memory:///t/a.json", "memory:///t/in/b.json.gz"]
    assert discover(["memory://t/d.txt"]) == [Found("memory://t/d.txt", named=True)]
    assert sources(discover(["memory://t/*.json"])) == ["memory:///t/.c.json", "memory:///t/a.json"]
    assert discover([f"file://{tree}/one.trace"]) == [Found(str(tree / "one.trace"), named=True)]
