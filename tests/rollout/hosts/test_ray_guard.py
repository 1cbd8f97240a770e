"""The guard of Ray's processes, with other processes in their place: which end is told, and by whom."""

import contextlib
import json
import subprocess
import sys
import threading

import psutil
import pytest

from longstride.rollout.hosts import ray_bystander
from longstride.rollout.hosts.ray_guard import RayGuard


@pytest.fixture
def raylet():
    """A process that lives until it is killed."""
    process = psutil.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
    process.communicate()


def bystander(process):
    """Start a bystander that watches a process, as the guard does."""
    started = subprocess.Popen(
        [sys.executable, "-P", ray_bystander.__file__], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    started.stdin.write(json.dumps(["Ray's {} has ended.", {"raylet": process.pid}]) + "\n")
    started.stdin.flush()
    return started


@pytest.mark.parametrize(
    ("killed", "word", "said"),
    [(True, "", "error: Ray's raylet has ended.\n"), (True, "\n", ""), (False, "", ""), (False, "\n", "")],
)
def test_a_bystander_speaks_if_ray_ended_first_and_the_guard_said_nothing(raylet, killed, word, said):
    started = bystander(raylet)
    if killed:
        raylet.kill()
        raylet.wait()
    assert started.communicate(word, timeout=60)[1] == said


def test_the_guard_tells_of_a_process_that_is_killed_once(raylet):
    told, event = [], threading.Event()
    guard = RayGuard({"raylet": raylet}, lambda name: (told.append(name), event.set()))
    assert not event.wait(0.5)
    raylet.kill()
    assert event.wait(60)
    guard.stop()
    assert told == ["raylet"]


def test_a_guard_that_was_stopped_tells_nothing(raylet):
    told = []
    guard = RayGuard({"raylet": raylet}, told.append)
    guard.stop()
    raylet.kill()
    guard._thread.join(60)
    assert told == []
