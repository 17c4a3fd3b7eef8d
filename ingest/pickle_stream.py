"""Reads pickles of plain data without ever building anything else, front to back, in bounded memory.

Every protocol, but only the opcodes that make numbers, text, bytes, lists, tuples and dicts: whatever would import,
call or construct is refused by name. Long lists of records need not be kept: ``take`` gets them as they come.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from .text import Refused

Take = Callable[[list[Any], list[Any]], bool]

_SHORT = 16  # no opcode but those that tell a length is longer
_REFUSED = {
    0x63: "GLOBAL", 0x93: "STACK_GLOBAL", 0x52: "REDUCE", 0x69: "INST", 0x6F: "OBJ", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX",
    0x62: "BUILD", 0x50: "PERSID", 0x51: "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x96: "BYTEARRAY8",
}  # fmt: skip


class PlainPickle:
    """One pickle, read from pieces of its bytes.

    Args:
        chunks: The bytes, in order.
        take: Called with (list, records) when dicts are about to be appended to a list; true when it has taken them:
            then the list stays without them and nothing remembers them. Such records must be dicts with ``mark``.
        mark: The key by which a dict is a record.
    """

    def __init__(self, chunks: Iterator[bytes], take: Take | None = None, mark: str = "action") -> None:
        self._chunks, self._take, self._mark_key = chunks, take, mark
        self._buf, self._pos, self._ended = b"", 0, False
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._memorized = 0
        self._fresh: list[int] = []  # memo entries since records were last taken
        self._same: dict[tuple[int, ...], list[Any]] = {}

    def load(self) -> Any:
        """Return the pickle's value.

        Raises:
            Refused: It would build more than plain data, is damaged, or ends too early.
        """
        try:
            return self._run()
        except (IndexError, KeyError, TypeError, ValueError, struct.error, OverflowError, AttributeError) as error:
            raise Refused(f"is no whole pickle ({type(error).__name__} at an opcode)") from error

    def _run(self) -> Any:
        # The opcodes that a snapshot is made of stand here, the most frequent first; the rest is in _OTHERS.
        buf, pos, safe = self._buf, self._pos, -1
        stack, memo, marks = self._stack, self._memo, self._marks
        push = stack.append
        while True:
            if pos > safe:
                buf, pos = self._refill(pos, _SHORT)
                safe = len(buf) - _SHORT if not self._ended else len(buf)
            op = buf[pos]
            if op == 0x68:  # BINGET
                push(memo[buf[pos + 1]])
                pos += 2
            elif op == 0x6A:  # LONG_BINGET
                push(memo[int.from_bytes(buf[pos + 1 : pos + 5], "little")])
                pos += 5
            elif op == 0x94:  # MEMOIZE
                self._put(self._memorized)
                pos += 1
            elif op == 0x28:  # MARK
                marks.append(len(stack))
                pos += 1
            elif op == 0x4D:  # BININT2
                push(buf[pos + 1] | buf[pos + 2] << 8)
                pos += 3
            elif op == 0x4B:  # BININT1
                push(buf[pos + 1])
                pos += 2
            elif op == 0x7D:  # EMPTY_DICT
                push({})
                pos += 1
            elif op == 0x5D:  # EMPTY_LIST
                push([])
                pos += 1
            elif op == 0x2E:  # STOP
                if len(stack) != 1 or marks:
                    raise Refused("is no whole pickle (values are left over at its end)")
                return stack[0]
            else:
                other = _OTHERS.get(op)
                if other is None:
                    raise Refused(
                        f"is a pickle that asks for more than plain data ({_name(op)}): nothing of it was run"
                    )
                self._pos = pos + 1
                other(self)
                if buf is not self._buf:
                    buf, safe = self._buf, len(self._buf) - _SHORT if not self._ended else len(self._buf)
                pos = self._pos

    # Bytes.

    def _refill(self, pos: int, wanted: int) -> tuple[bytes, int]:
        """Drop what was read, and read on until ``wanted`` bytes are there or the end."""
        parts = [self._buf[pos:]]
        there = len(parts[0])
        while there <= wanted and not self._ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
            else:
                parts.append(chunk)
                there += len(chunk)
        if not there:
            raise Refused("is cut short: the pickle has no end")
        self._buf, self._pos = b"".join(parts), 0
        return self._buf, 0

    def _bytes(self, n: int) -> bytes:
        if self._pos + n > len(self._buf):
            self._refill(self._pos, n)
            if n > len(self._buf):
                raise Refused("is cut short: the pickle has no end")
        self._pos += n
        return self._buf[self._pos - n : self._pos]

    def _uint(self, n: int) -> int:
        return int.from_bytes(self._bytes(n), "little")

    def _line(self) -> bytes:
        while (end := self._buf.find(b"\n", self._pos)) < 0:
            if self._ended:
                raise Refused("is cut short: the pickle has no end")
            self._refill(self._pos, len(self._buf) - self._pos)
        line, self._pos = self._buf[self._pos : end], end + 1
        return line

    # The stack and the memo.

    def _pop_mark(self) -> list[Any]:
        at = self._marks.pop()
        items = self._stack[at:]
        del self._stack[at:]
        return items

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _put(self, at: int) -> None:
        self._memo[at] = self._stack[-1]
        self._memorized += 1
        self._fresh.append(at)

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise TypeError("append to what is no list")
        record = items and type(items[0]) is dict and self._mark_key in items[0]
        if record and self._take is not None and self._take(target, items):
            self._forget(target)
        else:
            target.extend(items)

    def _forget(self, target: list[Any]) -> None:
        """Let the memo hold no record that was taken, and equal lists of theirs once."""
        memo = self._memo
        for i in self._fresh:
            value = memo[i]
            if type(value) is dict and self._mark_key in value:
                del memo[i]
            elif type(value) is list and value and value is not target:
                memo[i] = self._same.setdefault(tuple(map(id, value)), value)
        self._fresh.clear()

    def _set(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict:
            raise TypeError("item of what is no dict")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _take_two(self) -> list[Any]:
        value, key = self._stack.pop(), self._stack.pop()
        return [key, value]

    def _pop(self) -> None:
        if self._marks and self._marks[-1] == len(self._stack):
            self._marks.pop()
        else:
            self._stack.pop()

    def _tuple(self, n: int) -> None:
        if len(self._stack) < n:
            raise IndexError("stack")
        items = tuple(self._stack[len(self._stack) - n :])
        del self._stack[len(self._stack) - n :]
        self._stack.append(items)

    def _dict(self) -> None:
        items = self._pop_mark()
        self._push(dict(zip(items[::2], items[1::2], strict=True)))

    def _decimal(self) -> None:
        line = self._line()
        self._push(line == b"01" if line in (b"00", b"01") else int(line.rstrip(b"L")))

    def _quoted(self) -> None:
        line = self._line().strip()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise ValueError("text without quotes")
        self._push(line[1:-1].decode("unicode_escape"))


def _text(n: int) -> Callable[[PlainPickle], None]:
    return lambda p: p._push(p._bytes(p._uint(n)).decode("utf-8", "surrogatepass"))


def _latin(n: int) -> Callable[[PlainPickle], None]:
    return lambda p: p._push(p._bytes(p._uint(n)).decode("latin-1"))  # Python 2's str


def _raw(n: int) -> Callable[[PlainPickle], None]:
    return lambda p: p._push(p._bytes(p._uint(n)))


def _signed(n: int) -> Callable[[PlainPickle], None]:
    return lambda p: p._push(int.from_bytes(p._bytes(p._uint(n)), "little", signed=True))


_OTHERS: dict[int, Callable[[PlainPickle], Any]] = {
    0x75: lambda p: p._set(p._pop_mark()),  # SETITEMS
    0x65: lambda p: p._append(p._pop_mark()),  # APPENDS
    0x61: lambda p: p._append([p._stack.pop()]),  # APPEND
    0x73: lambda p: p._set(p._take_two()),  # SETITEM
    0x4A: lambda p: p._push(int.from_bytes(p._bytes(4), "little", signed=True)),  # BININT
    0x8A: _signed(1),  # LONG1
    0x8B: _signed(4),  # LONG4
    0x8C: _text(1),  # SHORT_BINUNICODE
    0x58: _text(4),  # BINUNICODE
    0x8D: _text(8),  # BINUNICODE8
    0x43: _raw(1),  # SHORT_BINBYTES
    0x42: _raw(4),  # BINBYTES
    0x8E: _raw(8),  # BINBYTES8
    0x55: _latin(1),  # SHORT_BINSTRING
    0x54: _latin(4),  # BINSTRING
    0x71: lambda p: p._put(p._uint(1)),  # BINPUT
    0x72: lambda p: p._put(p._uint(4)),  # LONG_BINPUT
    0x70: lambda p: p._put(int(p._line())),  # PUT
    0x67: lambda p: p._push(p._memo[int(p._line())]),  # GET
    0x80: lambda p: p._bytes(1),  # PROTO
    0x95: lambda p: p._bytes(8),  # FRAME
    0x4E: lambda p: p._push(None),  # NONE
    0x88: lambda p: p._push(True),  # NEWTRUE
    0x89: lambda p: p._push(False),  # NEWFALSE
    0x47: lambda p: p._push(struct.unpack(">d", p._bytes(8))[0]),  # BINFLOAT
    0x46: lambda p: p._push(float(p._line())),  # FLOAT
    0x49: PlainPickle._decimal,  # INT
    0x4C: PlainPickle._decimal,  # LONG
    0x53: PlainPickle._quoted,  # STRING
    0x56: lambda p: p._push(p._line().decode("raw-unicode-escape")),  # UNICODE
    0x29: lambda p: p._push(()),  # EMPTY_TUPLE
    0x85: lambda p: p._tuple(1),  # TUPLE1
    0x86: lambda p: p._tuple(2),  # TUPLE2
    0x87: lambda p: p._tuple(3),  # TUPLE3
    0x74: lambda p: p._push(tuple(p._pop_mark())),  # TUPLE
    0x6C: lambda p: p._push(list(p._pop_mark())),  # LIST
    0x64: PlainPickle._dict,  # DICT
    0x30: PlainPickle._pop,  # POP
    0x31: lambda p: p._pop_mark(),  # POP_MARK
    0x32: lambda p: p._push(p._stack[-1]),  # DUP
}


def _name(op: int) -> str:
    return _REFUSED.get(op, f"opcode 0x{op:02x}")
