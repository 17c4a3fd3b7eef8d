"""Pickles of plain data read the same as by pickle itself, in whatever pieces; anything else is refused, not run."""

from __future__ import annotations

import os
import pickle
import pickletools
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.ingest.pickle_stream import PlainPickle
from stepscope.ingest.text import Refused

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.tuples(inner)
        | st.tuples(inner, inner, inner, inner)
    ),
)


def pieces(data: bytes, size: int):
    return (data[i : i + size] for i in range(0, len(data), size))


@given(plain, st.integers(0, 5), st.integers(1, 40))
def test_it_reads_what_pickle_reads(value, protocol, size):
    if protocol < 3:  # there, bytes are calls of a codec
        value = _without_bytes(value)
    data = pickle.dumps(value, protocol)
    assert PlainPickle(pieces(data, size)).load() == value
    assert PlainPickle(iter([pickletools.optimize(data)])).load() == value


def _without_bytes(value):
    if isinstance(value, bytes):
        return None
    if isinstance(value, list | tuple):
        return type(value)(map(_without_bytes, value))
    return {key: _without_bytes(item) for key, item in value.items()} if isinstance(value, dict) else value


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_hostile_pickle_is_told_and_not_run(tmp_path, protocol):
    data = pickle.dumps({"segments": [Hostile(tmp_path / "made")]}, protocol)
    with pytest.raises(Refused, match="more than plain data"):
        PlainPickle(iter([data])).load()
    assert not (tmp_path / "made").exists()
    pickle.loads(data)
    assert (tmp_path / "made").exists()  # it would have been


@given(st.binary(max_size=60))
def test_noise_is_refused_in_words(data):
    with suppress(Refused):
        PlainPickle(iter([data])).load()


@given(st.integers(1, 400))
def test_a_cut_pickle_is_refused(at):
    data = pickle.dumps([{"name": "x" * 50, "n": list(range(300))}])
    with pytest.raises(Refused):
        PlainPickle(iter([data[: min(at, len(data) - 1)]])).load()


@pytest.mark.parametrize("protocol", range(6))
def test_records_are_handed_on_in_order_and_not_kept(protocol):
    shared = [{"name": "f", "line": 1}]
    devices = [[{"action": "alloc", "n": n, "frames": shared} for n in range(count)] for count in (3005, 0, 7)]
    taken: dict[int, list] = {}

    def take(target, items):
        taken.setdefault(id(target), []).extend(items)
        return True

    reader = PlainPickle(iter([pickle.dumps({"traces": devices}, protocol)]), take)
    root = reader.load()
    assert root == {"traces": [[], [], []]}
    assert [taken.get(id(one), []) for one in root["traces"]] == devices
    assert not any(type(one) is dict and "action" in one for one in reader._memo.values())
