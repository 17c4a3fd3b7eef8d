"""Any list of events, rendered any way and sliced anywhere, gives the rows that json and decimals give."""

import json
from decimal import Decimal

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.ingest.load import Limits, load
from stepscope.ingest.slices import cut, find_close

# Text that looks like the edges of events, next to any other text.
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.lists(st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", ":", '},{"ph":"X"', '}],"', "é", "\n"])).map("".join),
)
NUMBER = st.one_of(
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300),
)
VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBER, TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(TEXT, st.sampled_from(["ph", "name", "ts", "traceEvents"])), inner, max_size=3),
    ),
    max_leaves=6,
)
TIME = st.one_of(st.none(), st.integers(-(10**15), 2 * 10**15), st.decimals(-1000, 10**15, places=3).map(Decimal))
EVENT = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "M", "s", "f", "i"]), "name": TEXT},
    optional={
        "cat": st.sampled_from(["kernel", "cpu_op"]),
        "pid": st.one_of(TEXT, st.integers(0, 2**70)),
        "tid": st.one_of(TEXT, st.integers(0, 2**40)),
        "ts": TIME,
        "dur": TIME,
        "args": st.dictionaries(TEXT, VALUE, max_size=3),
        "id": NUMBER,
    },
)


def render(document: dict, indent: int | None, ascii_only: bool) -> str:
    """json.dumps with decimals as they stand."""
    marks: list[str] = []

    def mark(value: Decimal) -> str:
        marks.append(str(value))
        return f"@decimal {len(marks) - 1}@"

    text = json.dumps(
        document,
        default=mark,
        indent=indent,
        ensure_ascii=ascii_only,
        separators=(",", ":") if indent is None else None,
    )
    for i, number in enumerate(marks):
        text = text.replace(f'"@decimal {i}@"', number)
    return text


def expected(event: dict) -> tuple:
    def ns(value):
        return None if value is None else int(Decimal(value) * 1000)

    def text(value):
        return None if value is None else str(value)

    return (
        event["ph"],
        event.get("cat"),
        event["name"],
        text(event.get("pid")),
        text(event.get("tid")),
        ns(event.get("ts")),
        ns(event.get("dur")),
        event.get("args"),
    )


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=st.lists(EVENT, min_size=1, max_size=8),
    indent=st.sampled_from([None, 0, 2]),
    ascii_only=st.booleans(),
    size=st.integers(1, 400),
    spoiled=st.booleans(),
)
def test_slicing_anywhere_changes_nothing(tmp_path, events, indent, ascii_only, size, spoiled):
    events.append({"ph": "X", "cat": "kernel", "name": "k"})  # makes it Kineto's
    document = {"schemaVersion": 1, "traceEvents": events, "deviceProperties": [{"id": 0}], "traceName": "t"}
    text = render(document, indent, ascii_only)
    if spoiled:  # forces salvage somewhere
        text = text.replace('"k"', '"k\x01"')
        events[-1]["name"] = "k\x01"
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with duckdb.connect() as con:
        loaded = load(str(path), con, limits=Limits(slice_bytes=size))
        rows = con.execute("SELECT ph, cat, name, pid, tid, ts_ns, dur_ns, args FROM raw ORDER BY event_id").fetchall()
        ids = con.execute("SELECT event_id FROM raw ORDER BY 1").fetchall()
    assert ids == [(i,) for i in range(len(events))]
    assert [(*row[:7], row[7] and json.loads(row[7])) for row in rows] == [expected(e) for e in events]
    assert loaded.verdict == ("repaired" if spoiled else "ok")
    assert loaded.events_repaired == spoiled
    assert loaded.header == {k: v for k, v in document.items() if k != "traceEvents"}


@given(text=st.binary(max_size=300), size=st.integers(1, 50), chunk=st.integers(1, 40))
def test_cutting_loses_no_byte(text, size, chunk):
    pieces = list(cut((text[i : i + chunk] for i in range(0, len(text), chunk)), size, 1 << 20))
    assert b"".join(piece for piece, _ in pieces) == text
    assert [last for _, last in pieces] == [False] * (len(pieces) - 1) + [True]


def test_close_is_the_end_of_the_events_not_of_a_list_after_them():
    text = b'{"ph":"X","args":{"l":[{"a":1}]}}],"deviceProperties":[{"id":0}],"x":1}'
    assert find_close(text, bare=False) == text.index(b'],"deviceProperties')
    assert find_close(text[: text.index(b',"deviceProperties')], bare=True) == text.index(b'],"deviceProperties')
    assert find_close(b'{"ph":"X","args":{"l":[{"a":1}', bare=False) is None


def test_many_slices_keep_the_order(tmp_path):
    n = 20_000
    events = ",\n".join(f'{{"ph":"X","cat":"kernel","name":"k{i}","ts":{i}.001,"dur":1}}' for i in range(n))
    path = tmp_path / "t.json"
    path.write_text('{"schemaVersion":1,"traceEvents":[' + events + "]}")
    for size in (1 << 12, 1 << 15, 1 << 22):
        with duckdb.connect() as con:
            con.execute("SET threads = 4")
            load(str(path), con, limits=Limits(slice_bytes=size))
            query = "SELECT count(*), bool_and(name = 'k' || event_id AND ts_ns = event_id * 1000 + 1) FROM raw"
            assert con.execute(query).fetchall() == [(n, True)]
