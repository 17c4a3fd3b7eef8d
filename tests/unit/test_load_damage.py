"""Each kind of damage as a small hand-made trace, with the right answer."""

import gzip
import json
from pathlib import Path

import duckdb
import pytest

from stepscope.ingest.load import Limits, Loaded, load

HEADER = '{\n"schemaVersion": 1,\n"deviceProperties": [{"id": 0, "name": "GPU"}],\n"traceEvents": [\n'
TAIL = '\n],\n"traceName": "t.json",\n"baseTimeNanoseconds": 1700000000000000000\n}\n'


def event(name="bad", ts="15", dur="1", args='{"a": 3}') -> str:
    head = f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, '
    return head + f'"ts": {ts}, "dur": {dur}, "args": {args}}}'


ONE = event("one", "10.001", "2.500", '{"a": 1}')
TWO = event("two", "20.002", "3", '{"a": 2}')
ROW_ONE = ("one", 10001, 2500, '{"a":1}')
ROW_TWO = ("two", 20002, 3000, '{"a":2}')
CON = duckdb.connect()
SIZES = (1, 150, 4 << 20)


def read(path: Path, text: str | bytes, **kw) -> tuple[Loaded, list[tuple]]:
    """Load at several slice sizes; the answer must not depend on them."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    answers = []
    for size in SIZES:
        loaded = load(str(path), CON, limits=Limits(slice_bytes=size), **kw)
        rows = CON.execute("SELECT event_id, name, ts_ns, dur_ns, args FROM raw ORDER BY event_id").fetchall()
        assert [row[0] for row in rows] == list(range(loaded.events))
        answers.append((loaded, [row[1:] for row in rows]))
    assert answers[0] == answers[1] == answers[2]
    return answers[0]


def trace(*events: str) -> str:
    return HEADER + ",\n".join(events) + TAIL


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


def test_whole_file(path):
    loaded, rows = read(path, trace(ONE, TWO))
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.reason, loaded.format) == ("ok", "", "kineto")
    assert loaded.base_ns == 1700000000000000000
    assert loaded.header["deviceProperties"] == [{"id": 0, "name": "GPU"}]
    assert loaded.header["traceName"] == "t.json"
    assert loaded.bytes == path.stat().st_size


@pytest.mark.parametrize(
    ("dur", "rows_dur"),
    [("NaN", None), ("nan", None), ("inf", None), ("-inf", None), ("Infinity", None), ("-Infinity", None)],
)
def test_nonfinite_duration(path, dur, rows_dur):
    loaded, rows = read(path, trace(ONE, event(dur=dur), TWO))
    assert rows == [ROW_ONE, ("bad", 15000, rows_dur, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired, loaded.events_dropped) == ("repaired", 1, 0)
    assert "non-finite" in loaded.reason


@pytest.mark.parametrize("value", ["NaN", "inf", "-inf", "Infinity"])
def test_nonfinite_argument(path, value):
    args = f'{{"est. achieved occupancy %": {value}, "s": "NaN, inf"}}'
    loaded, rows = read(path, trace(ONE, event(args=args), TWO))
    assert json.loads(rows[1][3]) == {"est. achieved occupancy %": None, "s": "NaN, inf"}
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


def test_nonfinite_in_the_last_event(path):
    loaded, rows = read(path, HEADER + ONE + ",\n" + event(dur="inf", args="{}").replace(', "args": {}', "") + "]}")
    assert rows[1] == ("bad", 15000, None, None)
    assert loaded.verdict == "repaired"


def test_decimal_comma(path):
    loaded, rows = read(path, trace(ONE, event(ts="123,456", dur="1,5"), TWO))
    assert rows == [ROW_ONE, ("bad", 123456, 1500, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


def test_control_bytes_in_a_name(path):
    loaded, rows = read(path, trace(ONE, event(name="a\x01\x1fb\nc"), TWO))
    assert rows == [ROW_ONE, ("a\x01\x1fb\nc", 15000, 1000, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


def test_bad_utf8(path):
    loaded, rows = read(path, trace(ONE, event(name="a@b"), TWO).encode().replace(b"a@b", b"a\xff\xfeb"))
    assert rows == [ROW_ONE, ("a��b", 15000, 1000, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


def test_half_a_surrogate(path):
    loaded, rows = read(path, trace(ONE, event(name="a\\ud800b"), TWO))
    assert rows[1][0] == "a�b"
    assert loaded.events_repaired == 1


@pytest.mark.parametrize("name", ['a "quoted" b', 'say "hi", twice', 'x "', '"', 'lambda: {"k": 1'])
def test_unescaped_quotes_in_a_name(path, name):
    loaded, rows = read(path, trace(ONE, event(name=name), TWO))
    assert rows == [ROW_ONE, (name, 15000, 1000, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired, loaded.events_dropped) == ("repaired", 1, 0)


def test_backslashes(path):
    loaded, rows = read(path, trace(ONE, event(name=r"C:\Users\x.py"), TWO))
    assert rows == [ROW_ONE, (r"C:\Users\x.py", 15000, 1000, '{"a":3}'), ROW_TWO]
    assert loaded.events_repaired == 1


def test_unescaped_quotes_and_newlines_in_the_info_array(path):
    info = '"INFO": ["a "quoted" {thing}\nwith [brackets]", "}"],\n'
    loaded, rows = read(path, HEADER.replace('"traceEvents', info + '"traceEvents') + ONE + TAIL)
    assert rows == [ROW_ONE]
    assert loaded.base_ns == 1700000000000000000
    assert loaded.header["schemaVersion"] == 1
    assert loaded.header["deviceProperties"] == [{"id": 0, "name": "GPU"}]
    assert loaded.verdict == "repaired"
    loaded, rows = read(path, HEADER + ONE + TAIL.replace('"traceName', info + '"traceName'))
    assert rows == [ROW_ONE]
    assert loaded.base_ns == 1700000000000000000
    assert loaded.verdict == "repaired"


@pytest.mark.parametrize("junk", ["@@@@", '{"ph": "X", "name": oops}', '{"ph": "X", "dur": 5-, "name": "x"}', "{{{"])
def test_what_cannot_be_read_is_dropped(path, junk):
    loaded, rows = read(path, trace(ONE, junk, TWO))
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.events_dropped) == ("repaired", 1)
    loaded, rows = read(path, trace(ONE, TWO, junk))
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.events_dropped) == ("repaired", 1)
    assert loaded.header["traceName"] == "t.json"


@pytest.mark.parametrize("element", ["5", '"text"', "null", "[1, 2]", "true", "{}"])
def test_elements_that_are_no_events(path, element):
    loaded, rows = read(path, trace(ONE, element, TWO))
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.events_dropped) == ("repaired", 1)


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ('"1669783687464181.123"', 1669783687464181123),
        ("1669783687464181.123", 1669783687464181123),
        ("1.669783687464181123e15", 1669783687464181123),
        ("1669783687464181.1235", 1669783687464181124),
        ("1669783687464181.1234999", 1669783687464181123),
        ("-1.0005", -1001),
        ("1e-3", 1),
        ("0", 0),
        ("9223372036854775.807", 2**63 - 1),
        ("null", None),
    ],
)
def test_times_are_exact(path, ts, ns):
    loaded, rows = read(path, trace(ONE, event(ts=ts), TWO))
    assert rows[1] == ("bad", ns, 1000, '{"a":3}')
    assert loaded.verdict == "ok"
    loaded, rows = read(path, trace(ONE, event(ts=ts, name="\x01"), TWO))  # the same through salvage
    assert rows[1] == ("\x01", ns, 1000, '{"a":3}')


@pytest.mark.parametrize("ts", ['"soon"', '""', "9223372036854775.808", "1e400", "[1]", "99999999999999999999"])
def test_unusable_times(path, ts):
    loaded, rows = read(path, trace(ONE, event(ts=ts), TWO))
    assert rows == [ROW_ONE, ("bad", None, 1000, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


def test_odd_durations_pass_as_they_stand(path):
    missing = '{"ph": "X", "cat": "kernel", "name": "m", "pid": 0, "tid": 7, "ts": 0}'
    loaded, rows = read(path, trace(event(dur="-1"), event(dur="null"), missing, event(ts="0", dur="0")))
    assert [row[1:3] for row in rows] == [(15000, -1000), (15000, None), (0, None), (0, 0)]
    assert loaded.verdict == "ok"


def test_integers_beyond_int64(path):
    args = '{"addr": 18446744073709551616, "x": 123456789012345678901234567890}'
    for name in ("big", "big\x01"):
        _, rows = read(path, trace(ONE, event(name=name, args=args), TWO))
        assert json.loads(rows[1][3]) == {"addr": 18446744073709551616, "x": 123456789012345678901234567890}


def test_duplicate_keys_the_last_counts(path):
    double = event().replace('"ts": 15', '"ts": 14, "ts": 15')
    loaded, rows = read(path, trace(ONE, double, TWO))
    assert rows == [ROW_ONE, ("bad", 15000, 1000, '{"a":3}'), ROW_TWO]
    assert (loaded.verdict, loaded.events_repaired) == ("repaired", 1)


@pytest.mark.parametrize("depth", [50, 5000])
def test_deep_nesting(path, depth):
    _, rows = read(path, trace(ONE, event(args='{"a": ' + "[" * depth + "]" * depth + "}"), TWO))
    assert rows[0] == ROW_ONE
    assert rows[-1] == ROW_TWO
    assert len(rows) == 3


@pytest.mark.parametrize("text", [ONE + ",\n" + TWO + ",", ONE + ",,\n" + TWO, ONE + "\n" + TWO])
def test_commas_too_many_or_too_few(path, text):
    loaded, rows = read(path, HEADER + text + TAIL)
    assert rows == [ROW_ONE, ROW_TWO]
    assert loaded.events_dropped == 0


def test_byte_order_mark_and_crlf(path):
    loaded, rows = read(path, b"\xef\xbb\xbf" + trace(ONE, TWO).replace("\n", "\r\n").encode())
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.base_ns) == ("ok", 1700000000000000000)


def test_compact(path):
    text = json.dumps(json.loads(trace(ONE, TWO)), separators=(",", ":"))
    assert read(path, text)[1] == [ROW_ONE, ROW_TWO]


def test_bare_array(path):
    loaded, rows = read(path, f"[{ONE},\n{TWO}]")
    assert rows == [ROW_ONE, ROW_TWO]
    assert (loaded.verdict, loaded.base_ns, loaded.header) == ("ok", 0, {})
    loaded, rows = read(path, f"[{ONE},\n{TWO}")
    assert rows == [ROW_ONE, ROW_TWO]
    assert loaded.verdict == "truncated"


def test_all_arrays_are_read(path):
    text = HEADER + ONE + '],\n"other": {"traceEvents": 3},\n"traceEvents": [\n' + TWO + TAIL
    loaded, rows = read(path, text)
    assert rows == [ROW_ONE, ROW_TWO]
    assert loaded.verdict == "ok"


def test_two_documents_one_after_the_other(path):
    loaded, rows = read(path, trace(ONE) + trace(TWO))
    assert rows == [ROW_ONE, ROW_TWO]
    assert any("2 documents" in problem.sentence for problem in loaded.problems)


def test_two_documents_of_different_ranks(path):
    def rank(n):
        return trace(ONE).replace('"traceEvents"', f'"distributedInfo": {{"rank": {n}}},\n"traceEvents"')

    loaded, rows = read(path, rank(0) + rank(1))
    assert (loaded.verdict, rows) == ("quarantined", [])
    assert "distributedInfo" in loaded.reason


@pytest.mark.parametrize("block", [40, 64, 100, 256])
def test_interleaved_writers(path, block):
    a = trace(*[event(name=f"a{i}") for i in range(30)])
    b = trace(*[event(name=f"b{i}") for i in range(30)])
    at = len(HEADER) + 30  # both are inside their arrays from here on
    parts = [a[:at], b[:at]]
    for i in range(at, len(a), block):
        parts += [a[i : i + block], b[i : i + block]]
    loaded, rows = read(path, "".join(parts))
    assert (loaded.verdict, rows, loaded.events) == ("quarantined", [], 0)
    assert "written into each other" in loaded.reason


def test_rank_in_arguments_is_not_the_header(path):
    args = '{"rank": 5, "distributedInfo": {"rank": 9}, "baseTimeNanoseconds": 7}'
    loaded, _ = read(path, HEADER.replace('"deviceProp', '"INFO": ["a "b"], "deviceProp') + event(args=args) + TAIL)
    assert "distributedInfo" not in loaded.header
    assert loaded.base_ns == 1700000000000000000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"\x89PNG\r\n\x1a\n\x00\x00" * 50, "not JSON"),
        (b"<!DOCTYPE html><html><body>{}</body></html>", "not JSON"),
        (b"loss 0.1\nloss 0.2\n", "not JSON"),
        (b'{"schema": "1.0.1", "nodes": [{"id": 1}]}', "without trace events"),
        (b"[[1, 2], [3, 4]]", "without trace events"),
        (b'[{"a": 1}, {"a": 2}]', "without trace events"),
        (b'{"traceEvents": []}', "no events"),
        (HEADER.encode() + TAIL.encode(), "no events"),
        (HEADER.encode(), "before its first"),
        (b'{"schemaVersion": 1, "deviceProp', "before its first"),
        (gzip.compress(b"", mtime=0), "empty"),
    ],
)
def test_no_trace(path, content, reason):
    loaded, rows = read(path, content)
    assert (loaded.verdict, rows, loaded.events) == ("quarantined", [], 0)
    assert reason in loaded.reason


def test_missing_file_is_told_not_raised(tmp_path):
    with duckdb.connect() as con:
        loaded = load(str(tmp_path / "gone.json"), con)
    assert (loaded.verdict, loaded.sha256) == ("quarantined", "")


def test_cut_at_every_byte(path):
    text = trace(ONE, TWO, event(args='{"l": [{"name": "n", "ph": "X"}, {"ph": "}"}], "s": "a},{\\"ph\\": \\"X\\"}"}'))
    whole = json.loads(text)["traceEvents"]
    ends, at = [], len(HEADER)
    for _ in whole:
        at = json.JSONDecoder().raw_decode(text, at)[1]
        ends.append(at)
        at += 2
    for cut in range(len(text)):
        path.write_text(text[:cut])
        loaded = load(str(path), CON, limits=Limits(slice_bytes=64))
        names = [name for (name,) in CON.execute("SELECT name FROM raw ORDER BY event_id").fetchall()]
        kept = sum(end <= cut for end in ends)
        assert names == [e["name"] for e in whole[:kept]], cut
        if cut == len(text) - 1:  # only the last line feed is missing
            assert loaded.verdict == "ok"
        elif kept:
            assert loaded.verdict == "truncated", cut
        else:
            assert loaded.verdict == "quarantined", cut
        if kept and cut <= text.index("1700000000000000000") + 19:
            assert loaded.base_ns is None, cut


def test_lost_base_is_unknown_only_where_times_are_relative(path):
    loaded, _ = read(path, HEADER + event(ts="1669783687464181"))
    assert (loaded.verdict, loaded.base_ns) == ("truncated", 0)
    loaded, _ = read(path, HEADER + event(ts="2413669096090.100"))
    assert (loaded.verdict, loaded.base_ns) == ("truncated", None)


def test_gz_cut_at_every_byte(path):
    events = [event(name=f"n{i}") for i in range(20)]
    packed = gzip.compress(trace(*events).encode(), mtime=0)
    before = 0
    for cut in range(1, len(packed)):
        path.write_bytes(packed[:cut])
        loaded = load(str(path), CON)
        names = [name for (name,) in CON.execute("SELECT name FROM raw ORDER BY event_id").fetchall()]
        assert names == [f"n{i}" for i in range(len(names))]
        assert len(names) >= before
        assert loaded.verdict == ("truncated" if names else "quarantined")
        before = len(names)
    assert before == 20


def test_gz_kinds(path):
    whole = trace(ONE, TWO).encode()
    half = len(whole) // 2
    loaded, rows = read(path, gzip.compress(whole[:half]) + gzip.compress(whole[half:]))
    assert (loaded.verdict, rows) == ("ok", [ROW_ONE, ROW_TWO])
    loaded, rows = read(path, gzip.compress(whole) + b"\0" * 600)
    assert (loaded.verdict, rows) == ("ok", [ROW_ONE, ROW_TWO])
    loaded, rows = read(path, gzip.compress(whole) + b"garbage")
    assert (loaded.verdict, rows) == ("repaired", [ROW_ONE, ROW_TWO])
    packed = bytearray(gzip.compress(whole))
    packed[-6] ^= 0xFF  # the checksum
    loaded, rows = read(path, bytes(packed))
    assert (loaded.verdict, rows) == ("repaired", [ROW_ONE, ROW_TWO])


def test_bytes_after_the_end(path):
    loaded, rows = read(path, trace(ONE, TWO) + "and more")
    assert (loaded.verdict, rows) == ("repaired", [ROW_ONE, ROW_TWO])
    assert "8 bytes" in loaded.reason


def test_foreign_chrome_trace(path):
    text = json.dumps(
        [
            {"ph": "B", "cat": "app", "name": "outer", "pid": 1, "tid": 1, "ts": 1},
            {"ph": "B", "cat": "app", "name": "inner", "pid": 1, "tid": 1, "ts": 2},
            {"ph": "B", "cat": "app", "name": "other thread", "pid": 1, "tid": 2, "ts": 2.5},
            {"ph": "E", "pid": 1, "tid": 1, "ts": 3, "args": {"x": 1}},
            {"ph": "E", "pid": 1, "tid": 1, "ts": 5.001},
        ]
    )
    loaded, rows = read(path, text)
    assert (loaded.verdict, loaded.format, rows) == ("quarantined", "chrome", [])
    assert "--generic" in loaded.reason
    loaded, rows = read(path, text, generic=True)
    assert loaded.verdict == "ok"
    assert rows == [
        ("outer", 1000, 4001, None),
        ("inner", 2000, 1000, '{"x":1}'),
        ("other thread", 2500, None, None),
    ]
    assert [problem.rule for problem in loaded.problems] == ["unpaired"]


def test_limits(path):
    def refused(text, **limits):
        path.write_bytes(text)
        with duckdb.connect() as con:
            loaded = load(str(path), con, limits=Limits(slice_bytes=1 << 10, **limits))
            assert con.execute("SELECT count(*) FROM raw").fetchall() == [(0,)]
        assert loaded.verdict == "quarantined"
        return loaded.reason

    assert "limit" in refused(trace(*[ONE] * 99).encode(), text_bytes=5000)
    assert "limit" in refused(trace(event(name="x" * 50_000)).encode()[:-200], event_bytes=20_000)
    assert "no events in" in refused(b'{"a": "' + b"x" * (3 << 20) + b'"}', header_bytes=1 << 20)


def test_bomb(path, monkeypatch):
    monkeypatch.setattr("stepscope.ingest.text._RATIO_FROM", 1 << 20)
    path.write_bytes(gzip.compress(b'{"traceEvents":[' + (ONE + ",").encode() * 50_000 + b"{}]}"))
    with duckdb.connect() as con:
        loaded = load(str(path), con, limits=Limits(ratio=100))
    assert (loaded.verdict, loaded.events) == ("quarantined", 0)
    assert "bomb" in loaded.reason
