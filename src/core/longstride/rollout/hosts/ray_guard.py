"""Says why a run ends if a process of Ray on this machine dies, because Ray then ends the learner without a word.

A thread looks for Ray's processes and ends the run with a sentence. Ray's own code is faster if the learner is just
reading from a connection that closes: it leaves the process at once. A bystander says so then.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

import psutil

from longstride.rollout.hosts import ray_bystander

INTERVAL = 0.1
"""Seconds between two looks at Ray's processes."""

_EXIT = 2

_SENTENCE = (
    "Ray's {} on this machine has ended, and Ray ends this run with it; finished iterations are saved: start again "
    "with --resume."
)

_TOGETHER = (
    "The run has ended together with Ray's {} on this machine; finished iterations are saved: start again with "
    "--resume."
)
"""What the bystander says. It cannot know whether Ray ended the learner, as Ray also ends with a killed learner."""


def processes_here(raylet_socket: str) -> dict[str, psutil.Process]:
    """Return the raylet at a socket, and the GCS if this process has started it, by their names."""
    found = {}
    for process in psutil.process_iter(["name", "cmdline", "ppid"]):
        name, words = process.info["name"], process.info["cmdline"] or []
        if name == "raylet" and f"--raylet_socket_name={raylet_socket}" in words:
            found["raylet"] = process
        if name == "gcs_server" and process.info["ppid"] == os.getpid():
            found["GCS"] = process
    return found


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process is gone, or would be if its parent had looked."""
    try:
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def first_ended(processes: Mapping[str, psutil.Process]) -> str:
    """Return the name of a process that has ended; empty while all live."""
    return next((name for name, process in processes.items() if has_ended(process)), "")


class RayGuard:
    """Watches processes of Ray until :meth:`stop`; ``end`` is called in a thread, once, if one has ended."""

    def __init__(self, watched: Mapping[str, psutil.Process], end: Callable[[str], None] | None = None) -> None:
        self._watched, self._end, self._stopped = watched, end or self._end_at_once, threading.Event()
        # Python's -P keeps the modules of this folder from hiding those of the same names.
        command = [sys.executable, "-P", ray_bystander.__file__]
        self._bystander = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._say(json.dumps([_TOGETHER, {name: process.pid for name, process in watched.items()}]))
        self._thread = threading.Thread(target=self._run, name="ray", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL):
            if name := first_ended(self._watched):
                self._end(name)
                return

    def _end_at_once(self, name: str) -> None:
        """End this process: its main thread may wait for an answer of Ray for ever."""
        if self._stopped.is_set():
            return
        self._say("")
        print(f"error: {_SENTENCE.format(name)}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(_EXIT)

    def _say(self, line: str) -> None:
        """Write a line to the bystander, which may have been killed."""
        assert self._bystander.stdin is not None
        with contextlib.suppress(OSError):
            self._bystander.stdin.write(f"{line}\n".encode())
            self._bystander.stdin.flush()

    def stop(self) -> None:
        """End; nothing of Ray is missed any more."""
        self._stopped.set()
        self._say("")
        self._bystander.communicate()
