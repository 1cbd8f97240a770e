"""Kernels from one process to the next: found again, and never those of other code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from longstride.jit_cache.cache import VARIABLE

pytestmark = pytest.mark.slow

pytest.importorskip("pydantic")

SIMULATOR = """
import os
from typing import NamedTuple
import numpy as np
import walk_helper
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

FACTOR = 2.0
LEVEL = float(os.environ["LEVEL"])

class Parameters(NamedTuple):
    bonus: float

class Walk(Simulator):
    observation_size, action_space, max_steps = 1, Discrete(2), 4
    state_dtype = np.dtype([("x", np.float64)])
    parameters = Parameters(0.5)

    def reset(state, parameters, rng):
        state.x = 1.0

    def observe(state, parameters, observation):
        observation[0] = state.x

    def step(state, parameters, action, rng):
        return walk_helper.gain(state.x) * FACTOR + parameters.bonus + LEVEL, False
"""
HELPER = """
from numba import njit

@njit(nogil=True)
def gain(x):
    return x + 1.0
"""


def returned(gain=2.0, factor=2.0, bonus=0.5, level=0.0):
    return 4 * (gain * factor + bonus + level)


class Place:
    """A folder with the simulator, and one for its kernels."""

    def __init__(self, path):
        self.path = path
        self.write()

    def write(self, simulator=SIMULATOR, helper=HELPER):
        (self.path / "walk.py").write_text(simulator)
        (self.path / "walk_helper.py").write_text(helper)

    def start(self, level=0.0):
        root = Path(__file__).resolve().parents[2]
        environment = {
            **os.environ,
            "PYTHONPATH": f"{root / 'src' / 'core'}{os.pathsep}{self.path}",
            "LEVEL": str(level),
            VARIABLE: str(self.path / "kernels"),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python takes a file of the same size and second for the same
        }
        command = [sys.executable, str(Path(__file__).with_name("child.py")), f"{self.path / 'walk.py'}:Walk"]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def play(self, level=0.0):
        return self.end(self.start(level))

    def end(self, process):
        """Return the return of the episode, the kernels loaded and those compiled."""
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        return tuple(json.loads(output))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A place where one process has played."""
    place = Place(tmp_path_factory.mktemp("walk"))
    assert place.play() == (returned(), 0, 1), "the loop, with everything that it calls"
    return place


@pytest.fixture
def place(played):
    yield played
    played.write()


def test_a_second_process_loads_what_the_first_compiled(place):
    assert place.play() == (returned(), 1, 0)


@pytest.mark.parametrize(
    ("simulator", "helper", "expected"),
    [
        (SIMULATOR, HELPER.replace("x + 1.0", "x + 3.0"), returned(gain=4.0)),
        (SIMULATOR.replace("FACTOR = 2.0", "FACTOR = 8.0"), HELPER, returned(factor=8.0)),
        (SIMULATOR.replace("Parameters(0.5)", "Parameters(1.5)"), HELPER, returned(bonus=1.5)),
    ],
    ids=["callee in another file", "constant", "parameter"],
)
def test_an_edited_simulator_is_never_played_as_it_was(place, simulator, helper, expected):
    place.write(simulator, helper)
    assert place.play() == (expected, 0, 1)


def test_a_constant_that_comes_from_outside_of_the_file_counts_by_its_value(place):
    assert place.play(level=16.0) == (returned(level=16.0), 0, 1)


def test_processes_that_begin_together_both_play_and_leave_a_kernel_for_the_next(tmp_path):
    place = Place(tmp_path)
    together = [place.start(), place.start()]
    assert [place.end(process)[0] for process in together] == [returned()] * 2
    assert len(list((tmp_path / "kernels").iterdir())) == 1, "the same kernel, nothing half written"
    assert place.play() == (returned(), 1, 0)


CLOSURES = """
import sys
import numpy as np
from numba import njit
from longstride.jit_cache.cache import CACHE_STATS, cached

def build(k):
    @njit
    def inner(values):  # too long to be compiled into its callers, so that it is linked by its name
        values = np.sort(values * k)
        total = 0.0
        for v in values:
            total += np.median(values) * k if v > k else np.std(values + k)
        return total

    @njit
    def outer(values):
        return inner(values) + inner(values + 1.0) + inner(values - 1.0)

    return inner, outer

for k in map(float, sys.argv[1:]):
    inner, outer = build(k)
    values = np.arange(4.0)
    print(cached(outer)(values), sum(inner.py_func(values + shift) for shift in (0.0, 1.0, -1.0)))
print(CACHE_STATS.loaded, CACHE_STATS.compiled)
"""


def test_closures_of_one_factory_are_not_taken_for_each_other(tmp_path):
    """In the second process a kernel of that process and one of the first have the same place in Numba's count."""
    (tmp_path / "closures.py").write_text(CLOSURES)
    source = Path(__file__).resolve().parents[2] / "src" / "core"
    environment = {**os.environ, "PYTHONPATH": str(source), VARIABLE: str(tmp_path / "kernels")}
    for factors, tally in ((["1"], "0 1"), (["2", "1"], "1 1"), (["1", "3", "2"], "2 1")):
        command = [sys.executable, str(tmp_path / "closures.py"), *factors]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        *results, counts = done.stdout.splitlines()
        assert counts == tally
        for line in results:
            found, expected = map(float, line.split())
            assert found == pytest.approx(expected, rel=1e-9)


RECURSION = """
import sys
from numba import njit
from longstride.jit_cache.cache import CACHE_STATS, cached

@njit
def itself(n):
    return 0.0 if n == 0 else 1.0 + itself(n - 1)

@njit
def with_other_types(n, first):  # Numba compiles it for True and for False, as two functions
    return 0.0 if n == 0 else 1.0 + with_other_types(n - 1, False)

@njit
def there(n):
    return 0.0 if n == 0 else 1.0 + and_back(n - 1)

@njit
def and_back(n):
    return 0.0 if n == 0 else 1.0 + there(n - 1)

@njit
def kernel(n):
    return CALL

print(cached(kernel)(3), CACHE_STATS.loaded, CACHE_STATS.compiled)
"""


@pytest.mark.parametrize(
    ("call", "second"),
    [
        ("itself(n)", "3.0 1 0"),
        ("with_other_types(n, True)", "3.0 0 1"),  # Numba cannot load it: a segmentation fault
        ("there(n)", "3.0 0 1"),
    ],
)
def test_functions_that_call_each_other_in_a_circle_run_in_a_second_process(tmp_path, call, second):
    (tmp_path / "recursion.py").write_text(RECURSION.replace("CALL", call))
    source = Path(__file__).resolve().parents[2] / "src" / "core"
    environment = {**os.environ, "PYTHONPATH": str(source), VARIABLE: str(tmp_path / "kernels")}
    command = [sys.executable, str(tmp_path / "recursion.py")]
    for expected in ("3.0 0 1", second):
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert done.stdout == f"{expected}\n"
