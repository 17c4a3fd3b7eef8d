"""The bytes of a source -> its text, in chunks, hashed on the way.

Plain or gzip is decided by content. Reading is streaming: memory depends on the chunk, not on the file.
Damage is noted, not raised: a gz that was cut gives all the text it still holds.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

_RAW_CHUNK = 1 << 18
_TEXT_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_RATIO_FROM = 1 << 30  # text shorter than this is harmless whatever it was packed into


@dataclass(frozen=True)
class Limits:
    """What a source may ask of the machine; beyond it the source is quarantined with a sentence.

    Attributes:
        text_bytes: Longest text after decompression.
        ratio: Highest expansion of a gz, judged beyond 1 GiB of text. Real traces reach 50, a bomb 1000.
        event_bytes: Longest single event.
        header_bytes: Most text around the event arrays.
        slice_bytes: How much text is parsed at once; memory is a small multiple of it.
    """

    text_bytes: int = 1 << 40
    ratio: int = 500
    event_bytes: int = 64 << 20
    header_bytes: int = 16 << 20
    slice_bytes: int = 4 << 20


LIMITS = Limits()


class Refused(Exception):
    """The source is not read (further); the message is the reason in words."""


class TraceText:
    """Reads one source once, front to back.

    After iteration: ``sha256`` and ``size`` of the file's own bytes, and ``damage``, a sentence about a gz
    whose end is missing or whose bytes are wrong ('' when all is well). ``cut`` tells that the end is
    missing.
    """

    def __init__(self, source: str, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self.size = 0
        self.damage = ""
        self.cut = False
        self._hash = hashlib.sha256()
        self._file: IO[bytes] = _open(source)

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes read so far: of the file, once it was drained."""
        return self._hash.hexdigest()

    def chunks(self) -> Iterator[bytes]:
        """Yield the text in order, in pieces of about 1 MiB.

        Raises:
            Refused: The text passes a limit.
        """
        first = self._read()
        plain = first[:2] != _GZIP
        text = 0
        for chunk in self._plain(first) if plain else self._gunzip(first):
            if not text:
                chunk = chunk.removeprefix(_BOM)
            text += len(chunk)
            if text > self.limits.text_bytes:
                raise Refused(f"holds more than {self.limits.text_bytes:,} bytes of text, the limit")
            if text > _RATIO_FROM and text > self.limits.ratio * self.size:
                raise Refused(f"expands more than {self.limits.ratio} times: a decompression bomb, not a trace")
            yield chunk

    def drain(self) -> None:
        """Read what is left, for the hash and the size, and close."""
        while self._read():
            pass
        self._file.close()

    def close(self) -> None:
        """Close without reading on."""
        self._file.close()

    def _read(self) -> bytes:
        try:
            raw = self._file.read(_RAW_CHUNK)
        except Exception as error:  # a file system of fsspec raises what its driver raises
            raise OSError(getattr(error, "strerror", None) or str(error)) from error
        self._hash.update(raw)
        self.size += len(raw)
        return raw

    def _plain(self, raw: bytes) -> Iterator[bytes]:
        while raw:
            yield raw
            raw = self._read()

    def _gunzip(self, raw: bytes) -> Iterator[bytes]:
        member = zlib.decompressobj(31)
        while True:
            if not raw:
                raw = self._read()
            if not raw:
                if not member.eof:
                    self.cut, self.damage = True, "the gz ends early"
                    yield member.flush()
                return
            if member.eof:  # a file may be several gz members one after the other
                raw = raw.lstrip(b"\0") or self._read().lstrip(b"\0")
                if not raw:
                    continue
                raw += self._read() if len(raw) < 2 else b""
                if raw[:2] != _GZIP:
                    self.damage = "bytes after the end of the gz were ignored"
                    return
                member = zlib.decompressobj(31)
            before = member.copy()
            try:
                text = member.decompress(raw, _TEXT_CHUNK)
            except zlib.error as error:
                self.damage = f"the gz is damaged ({str(error).split(':')[-1].strip()})"
                yield _up_to_damage(before, raw)
                return
            raw = member.unused_data if member.eof else member.unconsumed_tail
            if text:
                yield text


def _up_to_damage(member: Any, raw: bytes) -> bytes:
    """Feed byte by byte, so that everything before the damage comes out."""
    text = []
    try:
        for i in range(len(raw)):
            text.append(member.decompress(raw[i : i + 1]))
    except zlib.error:
        pass
    return b"".join(text)


def _open(source: str) -> IO[bytes]:
    if "://" not in source:
        return open(source, "rb")
    import fsspec  # only URIs pay for it

    try:
        return fsspec.open(source, "rb").open()
    except Exception as error:  # whatever its driver raises
        raise OSError(getattr(error, "strerror", None) or str(error)) from error
