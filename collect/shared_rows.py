"""Memory for rows that outlives a killed process, and takes no system call to write to.

It is a file in ``/dev/shm``, reserved in full: a mapping of one on a disk would end the job with SIGBUS when the disk is
full or the network away. Its descriptor is closed at once, so nobody can close it for us.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from contextlib import suppress

from ..ingest.timer_rows import ROW, shared_path

SIZE = 1024 * ROW.size  # at ten writes into the run a second, enough for steps of 0.1 ms

Rows = ctypes.Array[ctypes.c_char]


def shared_rows(session: str) -> Rows:
    """Return zeroed memory for the rows of a session.

    Raises:
        OSError: This system has none that outlives the process.
    """
    path = shared_path(session)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        os.posix_fallocate(fd, 0, SIZE)
        return (ctypes.c_char * SIZE).from_address(_map(fd))
    except BaseException:
        path.unlink()
        raise
    finally:
        os.close(fd)


def release(session: str, rows: Rows) -> None:
    """Give back memory that is written to no more."""
    with suppress(OSError):
        shared_path(session).unlink()
    ctypes.CDLL(None).munmap(ctypes.c_void_p(ctypes.addressof(rows)), ctypes.c_size_t(SIZE))


def _map(fd: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    offset = ctypes.c_ssize_t(0)
    address = libc.mmap(None, ctypes.c_size_t(SIZE), mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, offset)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return int(address)
