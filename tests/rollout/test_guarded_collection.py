"""Collections that fail or never end: the step and the line that are named, for both ways of collecting."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, SEED, actor_weights, new_model
from oracles.toy_simulators import Squashed, Tracker

pytest.importorskip("gymnasium")
pytest.importorskip("pydantic")

import gymnasium

from longstride.errors import EndlessEpisodeError, SimulatorError, this_command
from longstride.rollout import guarded_collection
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fault_locator import FaultLocator
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.guarded_collection import collect_guarded, run_with_timeout
from longstride.rollout.gymnasium_collector import GymnasiumCollector
from longstride.simulators.check.time_limit import TooLong
from longstride.simulators.gym.adapter import registered
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete

ROOT = Path(__file__).parents[2]


class Trap(Simulator):
    """Falls into one of several traps when so many steps were made; an episode has 20 to 29 of them."""

    observation_size = 2
    action_space = Discrete(2)
    max_steps = 40
    state_dtype = np.dtype([("count", np.int64), ("length", np.int64), ("ever", np.int64)])

    def __init__(self, kind: int, at: int) -> None:
        self.parameters = np.array([kind, at], np.int64)

    def reset(state, parameters, rng):
        """Draw a length."""
        state.count, state.length = 0, rng.integers(20, 30)

    def observe(state, parameters, observation):
        """See the count, or nothing at all."""
        observation[0] = state.count / 10
        if parameters[0] == 1 and state.count == parameters[1]:
            observation[1] = np.nan

    def action_mask(state, parameters, mask):
        """Forbid all at the trap."""
        if parameters[0] == 2 and state.count == parameters[1]:
            mask[:] = False

    def step(state, parameters, action, rng):
        """Count, and fall."""
        here = state.count == parameters[1]
        state.count += 1
        if here and parameters[0] == 3:
            raise ValueError("no such shelf")
        if here and parameters[0] == 4:
            state.length = 5 // (parameters[1] + 1 - state.count)
        if here and parameters[0] == 5:
            return np.nan, False
        return 1.0 * action, state.count >= state.length


FALLS = {
    1: r"observation\[1\] is nan",
    2: "allowed no action",
    3: r"ValueError: no such shelf \(line \d+ of .*: raise ValueError",
    4: r"divide by zero.*state\.length = 5 // ",
    5: "step returned the reward nan",
}


def collector_of(simulator, steps=0, instances=2, seed=SEED):
    sizes = (simulator.observation_size, *HIDDEN, simulator.action_space.outputs)
    kind = FixedLengthCollector if steps else EpisodeCollector
    return kind(simulator, actor_spec(simulator, sizes, "relu"), RolloutPlan(seed, instances, steps))


def collect(collector, iteration=0, seconds=0.0):
    weights, count = weights_for(collector.simulator), collector.plan.instances
    return collect_guarded(collector, collector.state_dict(), weights, iteration, count, seconds, Path("runs/trap"))


def weights_for(simulator):
    return actor_weights(new_model(simulator, "relu"))


@pytest.mark.parametrize("steps", [0, 15])
@pytest.mark.parametrize("kind", FALLS)
def test_a_failure_names_episode_step_line_seed_and_the_command_that_plays_it_again(kind, steps):
    trap = Trap(kind, 17)  # with rollouts of 15, in the second one
    collector = collector_of(trap, steps)
    if steps:
        collect(collector)
    iteration = 2 if steps else 4
    name = "0 of instance 0" if steps else "6"
    flags = f"--mode replay --run-directory runs/trap --iteration {iteration}"
    command = f"Seed 7; play it again: {re.escape(this_command())} {flags}"
    with pytest.raises(SimulatorError, match=rf"episode {name}, step 17\b.*{FALLS[kind]}.*{command}"):
        collect(collector, iteration - 1)


def test_no_command_plays_again_what_only_a_program_can_make():
    made = type("Trap", (Trap,), {"__module__": "__main__"})
    with pytest.raises(SimulatorError, match=r"Seed 7\.$"):
        collect(collector_of(made(next(iter(FALLS)), 17)), 3)


def test_a_later_instance_and_a_later_episode_of_it_are_found():
    """Instance 1's second episode: the first of each is shorter than the trap, or none would come to it."""

    class Late(Trap):
        """Falls in the second episode of an instance whose draws are odd."""

        def reset(state, parameters, rng):
            """Count the episodes."""
            state.ever += 1
            state.count, state.length = 0, rng.integers(20, 30) * 0 + 10

        def step(state, parameters, action, rng):
            """Fall at the third step of the second episode, where a coin says so."""
            state.count += 1
            if state.ever == 2 and state.count == 3 and rng.random() < 0.5:
                raise ValueError("late")
            return 0.0, state.count >= state.length

    found = set()
    for seed in range(8):
        late = Late(0, 0)
        try:
            collect(collector_of(late, 30, 3, seed))
        except SimulatorError as error:
            assert "step 2: ValueError: late" in str(error) and "does not fail" not in str(error)
            found.add(str(error).split("episode ")[1].split(",")[0])
    assert len(found) > 1 and all(name.startswith("1 of instance") for name in found), found


@pytest.mark.parametrize("kind", [Tracker, Squashed])
def test_the_action_of_a_box_is_the_one_that_failed(kind):
    class Strict(kind):
        """Refuses what lies far on one side."""

        def step(state, parameters, action, rng):
            """Raise for a number near or at the bound."""
            if action[0] > 0.8 * high:
                raise ValueError("too far")
            return 0.0, False

    high = float(kind().action_space.bounds[1, 0])
    strict = Strict()
    with pytest.raises(SimulatorError, match=r"step \d+: ValueError: too far \(line \d+") as error:
        collect(collector_of(strict))
    assert "does not fail" not in str(error.value)


def test_what_only_compiled_code_does_is_said_with_its_step(monkeypatch):
    trap = Trap(3, 5)
    monkeypatch.setattr(FaultLocator, "as_python", lambda self, seconds, compiled_helpers: None)
    sentence = r"Trap, episode 0, step 5: Trap, episode 0: ValueError: no such shelf.*as ordinary Python does not fail"
    with pytest.raises(SimulatorError, match=sentence):
        collect(collector_of(trap))


def test_a_failure_that_does_not_come_again():
    collector = collector_of(Trap(0, 0))
    collector.collect = collector_of(Trap(3, 5)).collect
    with pytest.raises(SimulatorError, match="played again, it does not fail: is it deterministic"):
        collect(collector)


def test_a_round_that_is_only_slow_is_not_called_random(monkeypatch):
    def too_slow(seconds, function):
        raise TooLong

    monkeypatch.setattr(guarded_collection, "run_with_timeout", too_slow)
    trap = Trap(0, 0)
    with pytest.raises(EndlessEpisodeError, match=r"= 2 s; raise it if nothing is wrong; .* every step returned\."):
        collect(collector_of(trap), seconds=2.0)


ENDLESS = """
import numpy as np
from numba import njit
from longstride.simulators.simulator import Simulator
from longstride.simulators.spaces import Discrete


@njit
def search(shelf):
    while shelf >= 0: shelf = (shelf + 1) % 7
    return shelf


class Endless(Simulator):
    observation_size = 1
    action_space = Discrete(2)
    max_steps = 400
    state_dtype = np.dtype([("count", np.int64)])

    def reset(state, parameters, rng):
        state.count = 0

    def observe(state, parameters, observation):
        observation[0] = state.count

    def step(state, parameters, action, rng):
        state.count += 1
        return 0.0, (search(0) if state.count == 251 else 1) == 0
"""


@pytest.mark.slow
def test_an_endless_loop_ends_the_process(tmp_path):
    """In a compiled helper: neither thread nor function can be interrupted."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    flags = "--simulator endless.py:Endless --episode-time-limit 2 --rollout-steps 300 --run-directory run"
    command = [sys.executable, f"{ROOT}/scripts/train.py", *flags.split()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src" / "core")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 2
    assert "Endless.step was still running after 2 s in episode 0 of instance 0, step 250 (line " in done.stderr
    assert "while shelf >= 0: shelf = (shelf + 1) % 7" in done.stderr and "--mode replay" in done.stderr
    assert "Traceback" not in done.stderr


class Sleepy(gymnasium.Env):
    """Falls asleep at its hundredth step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        while self.count == 100:
            time.sleep(0.01)
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_an_environment_that_sleeps():
    gymnasium.register("longstride/Sleepy-v0", entry_point=Sleepy)
    simulator = registered("longstride/Sleepy-v0", {})
    spec = actor_spec(simulator, (1, *HIDDEN, 2), "relu")
    collector = GymnasiumCollector(simulator, spec, RolloutPlan(SEED, 1, 200))
    collector.compile(weights_for(simulator))
    with pytest.raises(EndlessEpisodeError, match=r"took longer than EPISODE_TIME_LIMIT = 0\.5 s"):
        collect(collector, seconds=0.5)


def test_within():
    assert run_with_timeout(5.0, lambda: 3) == run_with_timeout(0.0, lambda: 3) == 3
    with pytest.raises(TooLong):
        run_with_timeout(0.05, lambda: time.sleep(0.5))
    with pytest.raises(KeyError):
        run_with_timeout(5.0, lambda: {}[1])
