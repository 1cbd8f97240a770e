"""Output that cannot be written: real processes with full devices, pipes without readers, closed descriptors."""

import errno
import fcntl
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import longstride

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")

SOURCES = str(Path(longstride.__file__).parents[1])
LOSES = """
import logging, sys, warnings
from longstride.output import keep_output, lost_output, note_losses
keep_output()
from rich.console import Console
lines = []
note_losses(lines.append)
for i in range(3):
    print("line", i)
    Console().print("rich", i)
    print("to stderr", file=sys.stderr, flush=True)
    warnings.warn("a warning")
    logging.getLogger("x").error("a message")
    sys.__stdout__.write("by name\\n")
    sys.stdout.flush()
"""
TELLS = "open(sys.argv[1], 'w').write(repr((lines, getattr(lost_output(), 'errno', None))))\n"


def run(program, tmp_path, **streams):
    """Return the exit code of a program, and what it noted of its output."""
    note = tmp_path / "note"
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run([sys.executable, "-c", program, str(note)], env=environment, timeout=120, **streams)
    return done.returncode, eval(note.read_text())


def lines_of(reason):
    return [f"{name} cannot be written: {reason}. The run continues; what it prints is lost." for name in NAMES]


NAMES = ("Standard output", "Standard error")


def test_a_full_disk_is_noted_once_for_each_stream_and_the_exit_code_stays_0(tmp_path):
    with open("/dev/full", "w") as full:
        code, (lines, number) = run(LOSES + TELLS, tmp_path, stdout=full, stderr=full)
    assert (code, lines, number) == (0, lines_of("No space left on device"), errno.ENOSPC)


def test_without_care_the_same_program_fails(tmp_path):
    """Otherwise these tests could not fail."""
    with open("/dev/full", "w") as full:
        plain = [sys.executable, "-c", "print(1)"]
        assert subprocess.run(plain, stdout=full, stderr=full).returncode in (1, 120)


def test_a_pipe_without_a_reader(tmp_path):
    read, write = os.pipe()
    os.close(read)
    code, (lines, number) = run(LOSES + TELLS, tmp_path, stdout=write, stderr=write)
    os.close(write)
    assert (code, lines, number) == (0, lines_of("Broken pipe"), errno.EPIPE)


def test_closed_descriptors_are_taken_so_that_no_file_gets_their_number(tmp_path):
    opens = "file = open(sys.argv[1] + '.other', 'w'); assert file.fileno() > 2, file.fileno()\n"
    close = lambda: (os.close(1), os.close(2))  # noqa: E731
    code, (lines, number) = run(LOSES + opens + TELLS, tmp_path, preexec_fn=close)
    assert (code, lines, number) == (0, lines_of("Bad file descriptor"), errno.EBADF)


def test_a_terminal_that_is_gone(tmp_path):
    """Closing the master of a terminal is what a lost ssh does."""
    master, slave = pty.openpty()
    waits = "import time\nwhile sys.stdin.read(1): pass\n"
    process = subprocess.Popen(
        [sys.executable, "-c", waits.join(["import sys\n", LOSES + TELLS]), str(tmp_path / "note")],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdin=subprocess.PIPE,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    os.close(master)
    process.stdin.close()
    assert process.wait(120) == 0
    lines, number = eval((tmp_path / "note").read_text())
    assert (lines, number) == (lines_of("Input/output error"), errno.EIO)


def test_a_pipe_that_does_not_block_waits_for_its_reader(tmp_path):
    """Megabytes through a pipe of 64 KiB whose reader is slow: nothing is lost."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    program = (
        "import sys\nfrom longstride.output import keep_output, lost_output\nkeep_output()\n"
        "for i in range(20_000): print('x' * 99)\nlines = []\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    process = subprocess.Popen(
        [sys.executable, "-c", program + TELLS, str(tmp_path / "note")], env=environment, stdout=write
    )
    os.close(write)
    size = 0
    while part := os.read(read, 1 << 16):
        size += len(part)
    assert process.wait(120) == 0
    assert size == 20_000 * 100
    assert eval((tmp_path / "note").read_text()) == ([], None)


def test_a_pipe_that_does_not_block_and_is_never_read_costs_one_wait(tmp_path):
    read, write = os.pipe()
    os.set_blocking(write, False)
    fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ
    more = "for i in range(2000): print('x' * 99)\n"
    code, (lines, number) = run(LOSES + more + TELLS, tmp_path, stdout=write, stderr=subprocess.DEVNULL)
    os.close(read)
    os.close(write)
    assert (code, number) == (0, errno.EAGAIN)
    assert lines[:1] == lines_of("Resource temporarily unavailable")[:1]
    assert len(lines) <= 2, "at most that it went on with what fitted"


def test_output_goes_on_when_there_is_room_again(tmp_path):
    """A limit on the size of files is a full disk that this process can free itself."""
    program = """
import resource, sys
from longstride.output import keep_output, lost_output, note_losses
keep_output()
lines = []
note_losses(lines.append)
print("first")
resource.setrlimit(resource.RLIMIT_FSIZE, (8, resource.RLIM_INFINITY))
print("second")
print("third")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("fourth")
"""
    with (tmp_path / "out").open("a") as out:
        code, (lines, _) = run(program + TELLS, tmp_path, stdout=out)
    assert code == 0
    assert (tmp_path / "out").read_text() == "first\nse\nfourth\n"
    assert lines[1:] == ["Standard output is written again; lines that are missing in it: 2."]
    assert lines[0].startswith("Standard output cannot be written: File too large.")


def test_lines_wait_for_a_sink_that_takes_them(tmp_path):
    program = """
import sys
from longstride.output import keep_output, lost_output, note_losses
keep_output()
print("nobody hears")
lines, tried = [], []
def sink(line):
    tried.append(line)
    if len(tried) < 3:
        raise OSError("full")
    lines.append(line)
note_losses(sink)
assert not lines
print("again")
print("again")
"""
    with open("/dev/full", "w") as full:
        _, (lines, _) = run(program + TELLS, tmp_path, stdout=full)
    assert lines == lines_of("No space left on device")[:1]


def test_a_signal_may_print_while_something_is_printed(tmp_path):
    """A buffer would refuse that with a RuntimeError, which would end the run."""
    program = """
import os, signal, sys
from longstride.output import keep_output, lost_output
keep_output()
signal.signal(signal.SIGALRM, lambda *_: print("from a signal"))
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for i in range(20_000): print("line")
signal.setitimer(signal.ITIMER_REAL, 0)
lines = []
"""
    with (tmp_path / "out").open("w") as out:
        code, _ = run(program + TELLS, tmp_path, stdout=out)
    assert code == 0
    text = (tmp_path / "out").read_text()
    assert text.count("line") == 20_000
    assert text.count("from a signal") > 0


def test_streams_of_others_stay(capsys):
    from longstride.output import keep_output

    before = sys.stdout
    keep_output()
    assert sys.stdout is before
    print("heard")
    assert capsys.readouterr().out == "heard\n"


@pytest.mark.parametrize(("name", "code"), [("PIPE", 141), ("FULL", 1)])
def test_other_modes_end_without_a_traceback(tmp_path, name, code):
    """``plan | head`` is quiet, as programs are that SIGPIPE ends; a full disk is a sentence."""
    program = "import sys\nfrom longstride.cli import main\nsys.exit(main(sys.argv[1:]))"
    arguments = ["--mode", "plan", "--simulator", "cartpole", "--run-directory", str(tmp_path / "run")]
    read, write = os.pipe()
    os.close(read)
    stdout = write if name == "PIPE" else os.open("/dev/full", os.O_WRONLY)
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == code
    error = "error: Standard output cannot be written: No space left on device.\n" if name == "FULL" else ""
    assert done.stderr == error
    assert (tmp_path / "run" / "plan.json").is_file(), "its work is done to the end"
