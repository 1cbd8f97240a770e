"""Standard output and standard error that never end a run: what cannot be written is counted and dropped.

A log file on a full disk, a pipe whose reader has gone, a terminal that was closed: Python raises an error in each
``print``, and once more when it flushes at its end. Here the streams of the process get a lowest layer that raises
nothing. It tries each write anew, so output goes on as soon as it is possible again.
"""

import errno
import io
import os
import select
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

_PATIENCE = 5.0
"""Seconds to wait for the reader of a pipe that does not block, before its output is dropped."""

_NAMES = {"stdout": "Standard output", "stderr": "Standard error"}


class Notices:
    """Lines about lost output; they wait until there is a sink, and until the sink takes them."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._sink: Callable[[str], None] | None = None

    def add(self, line: str) -> None:
        """Add a line."""
        self._waiting.append(line)

    def send_to(self, sink: Callable[[str], None] | None) -> None:
        """Hand all lines to a function, now and from now on; it raises OSError if it cannot take one."""
        self._sink = sink
        self.deliver()

    def deliver(self) -> None:
        """Hand over the lines that wait."""
        with suppress(OSError):
            while self._sink is not None and self._waiting:
                self._sink(self._waiting[0])
                self._waiting.popleft()


class Lenient(io.RawIOBase):
    """The lowest layer of an output stream: a write that fails is dropped, counted and noted once.

    Args:
        stream: stream whose lowest layer writes the bytes; None if its descriptor was closed before the process began.
        name: name of the stream for people.
        notices: takes the lines about it.
    """

    def __init__(self, stream: TextIO | None, name: str, notices: Notices) -> None:
        buffer = getattr(stream, "buffer", None)
        self._raw: Any = getattr(buffer, "raw", buffer)
        self._stream = stream  # which would close its layers if nothing held it
        self._name, self.notices = name, notices
        self.name, self.mode = getattr(self._raw, "name", f"<{name.lower()}>"), "wb"
        self.failure: OSError | None = None  # the first one, also if output went on later
        self._failing = self._announced = False
        self._noted: set[int | None] = set()
        self._missing = 0  # lines since output stopped
        self._middle = False  # whether the last byte that was written ends no line
        if self._raw is None:
            self._fail(OSError(errno.EBADF, os.strerror(errno.EBADF)), b"")

    def write(self, data: Any) -> int:
        """Write bytes, or drop those that cannot be written; return their number."""
        content = bytes(data)
        if self._raw is not None and content:
            self._try(content)
        self.notices.deliver()
        return len(content)

    def _try(self, content: bytes) -> None:
        left = memoryview(self._resumed() + content)
        try:
            while left:
                count = self._write_some(left)
                self._middle = left[count - 1] != ord("\n")
                left = left[count:]
        except (OSError, ValueError) as error:  # ValueError of a layer that was closed
            self._fail(error if isinstance(error, OSError) else OSError(errno.EBADF, str(error)), content)
            return
        if self._announced:
            self.notices.add(f"{self._name} is written again; lines that are missing in it: {self._missing}.")
        self._failing = self._announced = False
        self._missing = 0

    def _resumed(self) -> bytes:
        """Return what stands before the first output after a failure: the end of a line that was cut."""
        return b"\n" if self._failing and self._middle else b""

    def _write_some(self, left: memoryview) -> int:
        """Write a part of some bytes and return its size; wait a while if the reader of a pipe is slow."""
        for patient in (errno.EAGAIN not in self._noted, False):  # one wait for a reader that never reads
            if count := self._raw.write(left):
                return int(count)
            if patient:
                select.select([], [self._raw], [], _PATIENCE)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    def _fail(self, error: OSError, lost: bytes) -> None:
        self.failure = self.failure or error
        self._failing = True
        self._missing += lost.count(b"\n")
        if error.errno not in self._noted:
            self._noted.add(error.errno)  # so there are few notices, however often output stops and goes on
            self._announced = True
            reason = error.strerror or str(error)
            self.notices.add(f"{self._name} cannot be written: {reason}. The run continues; what it prints is lost.")

    @property
    def failing(self) -> bool:
        """Whether the last write failed."""
        return self._failing

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor; raises OSError where there is none."""
        if self._raw is None:
            raise io.UnsupportedOperation("fileno")
        return int(self._raw.fileno())

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._raw is not None and bool(self._raw.isatty())


def keep_output() -> None:
    """Let the output of this process never raise an error, until it ends; a second call changes nothing.

    Streams that a notebook or a test has put in place stay as they are.
    """
    notices = Notices()
    for name in _NAMES:
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and not isinstance(getattr(stream, "buffer", None), Lenient):
            lenient = _lenient(stream, name, notices)
            setattr(sys, name, lenient)
            setattr(sys, f"__{name}__", lenient)  # which the interpreter and libraries write to as well


@contextmanager
def kept_output() -> Iterator[None]:
    """Let the output of this process raise no error meanwhile, as :func:`keep_output` does."""
    names = [name for stream in _NAMES for name in (stream, f"__{stream}__")]
    before = {name: getattr(sys, name) for name in names}
    keep_output()
    try:
        yield
    finally:
        for name, stream in before.items():
            setattr(sys, name, stream)


def _lenient(stream: TextIO | None, name: str, notices: Notices) -> TextIO:
    """Return a stream like another one, None for a closed one, that raises nothing."""
    encoding, errors = "utf-8", "backslashreplace"
    if stream is None:
        _occupy(1 if name == "stdout" else 2)
    else:
        with suppress(OSError, ValueError):
            stream.flush()
        encoding, errors = stream.encoding, stream.errors or "strict"
    raw: Any = Lenient(stream, _NAMES[name], notices)
    # No buffer between them: a signal may print in the middle of a write, which a buffer refuses.
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, write_through=True)


def _occupy(descriptor: int) -> None:
    """Open the null device in the place of a closed descriptor, so that no file of a run gets its number."""
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)


def note_losses(sink: Callable[[str], None] | None) -> None:
    """Hand the lines about output of this process that is lost to a function; None lets them wait.

    The function raises OSError if it cannot take a line, which is tried again with the next output.
    """
    for notices in {id(layer.notices): layer.notices for layer in _layers().values()}.values():
        notices.send_to(sink)


def lost_output() -> OSError | None:
    """Return why standard output could not be written at some time; None if it always could."""
    layer = _layers().get("stdout")
    return None if layer is None else layer.failure


def note_error(sentence: str) -> None:
    """Add the sentence of an error to the lines about lost output, if standard error cannot show it."""
    layer = _layers().get("stderr")
    if layer is not None and layer.failing:
        layer.notices.add(sentence)
        layer.notices.deliver()


def _layers() -> dict[str, Lenient]:
    """Return the lowest layers of the streams, by name, that :func:`keep_output` has put in place."""
    buffers = {name: getattr(getattr(sys, f"__{name}__"), "buffer", None) for name in _NAMES}
    return {name: buffer for name, buffer in buffers.items() if isinstance(buffer, Lenient)}
