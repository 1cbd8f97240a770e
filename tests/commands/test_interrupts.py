"""Ctrl-C before, while and after something is compiled."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from longstride import cli
from longstride.api.interrupts import Interrupt, StopOnInterrupt, ending_signals, remembered_interrupt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")


@pytest.fixture(autouse=True)
def ctrl_c_raises():
    """A suite in a shell's background inherits that SIGINT is ignored."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


def lose_an_interrupt():
    """Do what the compiler does with an exception that is raised in what it calls."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_the_compiler_has_lost_ends_the_command_before_training():
    with remembered_interrupt() as interrupt:
        lose_an_interrupt()
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt), StopOnInterrupt(print, signal.SIGINT, signal.SIGTERM):
            raise AssertionError("trained")
        assert signal.getsignal(signal.SIGINT) is interrupt
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_an_interrupt_training_begins_and_the_first_one_asks_it_to_stop():
    said = []
    with remembered_interrupt() as interrupt, StopOnInterrupt(said.append, signal.SIGINT) as stop:
        signal.raise_signal(signal.SIGINT)
    assert stop.requested() and not interrupt.asked and len(said) == 1


def test_a_lost_terminal_is_one_request_however_often_it_is_told():
    """The system and the shell both send SIGHUP, and SIGTERM follows where a session ends."""
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with StopOnInterrupt(print, *ending_signals()) as stop:
            for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            assert stop.requested()
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_under_nohup_a_lost_terminal_is_not_heard():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopOnInterrupt(print, *ending_signals()) as stop:
            signal.raise_signal(signal.SIGHUP)
        assert not stop.requested()
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_handler_of_the_caller_stays():
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with remembered_interrupt() as interrupt:
            signal.raise_signal(signal.SIGINT)
        assert not interrupt.asked
    finally:
        signal.signal(signal.SIGINT, previous)


def test_after_ctrl_c_nothing_of_the_interpreters_end_runs():
    program = (
        "import atexit, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from longstride import cli\n"
        "atexit.register(print, 'the end')\n"
        "cli._run_mode = lambda *_: signal.raise_signal(signal.SIGINT)\n"
        "raise SystemExit(cli.main([]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (cli.EXIT_INTERRUPTED, "")
    assert done.stderr == "Interrupted; what was saved before is untouched.\n"


def test_the_handler_raises():
    with pytest.raises(KeyboardInterrupt):
        Interrupt()(signal.SIGINT, None)
