"""How long values hold together, against processes whose correlation is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from longstride.learning.batch.value_memory import ValueMemory
from longstride.learning.distributed.ranks import ALONE

MODEL = SimpleNamespace(normalise=lambda x: x, values=lambda x: 3.0 * x[:, 0] - 100.0)
"""A critic whose value is a linear function of the only number that is observed."""


def wandering(rng, steps, time):
    """Return a trajectory of a stationary process with correlation exp(-k / time) after k steps."""
    kept = np.exp(-1.0 / time)
    numbers = np.empty(steps + 1, np.float32)
    numbers[0] = rng.standard_normal()
    for t in range(steps):
        numbers[t + 1] = kept * numbers[t] + np.sqrt(1.0 - kept**2) * rng.standard_normal()
    nothing = np.zeros(steps, np.bool_)
    return SimpleNamespace(steps=steps, observations=numbers[:, None], terminated=nothing, truncated=nothing.copy())


def cut(trajectory, at):
    trajectory.truncated[at] = True
    return trajectory


def learned(rollouts):
    memory = ValueMemory()
    for rollout in rollouts:
        memory.learn(MODEL, rollout, ALONE)
    return memory


@pytest.mark.parametrize("time", [20.0, 100.0, 400.0])
def test_the_time_of_a_process_is_found(time):
    rng = np.random.default_rng(0)
    rollouts = [[wandering(rng, 256, time) for _ in range(60)] for _ in range(30)]
    assert learned(rollouts).steps == pytest.approx(time, rel=0.2)


def test_what_is_forgotten_at_once_has_a_short_time():
    rng = np.random.default_rng(1)
    assert 0.0 < learned([wandering(rng, 256, 1.0) for _ in range(24)] for _ in range(20)).steps < 64.0


def test_excursions_and_ends_do_not_count_but_an_end_of_the_rollout_does():
    rng = np.random.default_rng(2)
    natural = [wandering(rng, 64, 30.0) for _ in range(16)]
    excursions = [cut(wandering(rng, 64, 1.0), 7) for _ in range(16)]
    assert learned([natural]).steps == learned([natural + excursions]).steps > 0.0
    assert learned([[cut(each, 63) for each in natural]]).steps == learned([natural]).steps


def test_few_trajectories_constant_values_and_no_finite_ones_say_nothing():
    rng = np.random.default_rng(3)
    some, constant, broken = ([wandering(rng, 64, 30.0) for _ in range(16)] for _ in range(3))
    for each in constant:
        each.observations[:] = 1.0
    broken[0].observations[:] = np.nan
    for rollout in (some[:7], constant, broken, []):
        assert learned([rollout]).steps == 0.0


def test_the_ranks_share_what_they_played_and_a_checkpoint_keeps_it():
    rng = np.random.default_rng(4)
    played = [wandering(rng, 64, 30.0) for _ in range(16)]
    together = SimpleNamespace(gather=lambda part: [part, others])
    others: list = []
    ValueMemory().learn(MODEL, played[8:], SimpleNamespace(gather=lambda part: others.extend(part) or [part]))
    memory, again = ValueMemory(), ValueMemory()
    memory.learn(MODEL, played[:8], together)
    assert memory.steps == learned([played]).steps
    again.load_state_dict(memory.state_dict())
    for each in (memory, again):
        each.learn(MODEL, played, ALONE)
    assert memory.state_dict() == again.state_dict()
