"""How many copies of an episode a training episode plays."""

import pytest

pytest.importorskip("pydantic")

from oracles.toy_simulators import Bandit, Shop

from core.config import Config
from core.simulators.loading import load_simulator
from core.training.build.rollout_size import copies_per_update, decisions_per_update


def config(**values):
    return Config.model_validate(values)


def test_the_default_rollout_of_the_loan_desk_is_six_half_years():
    desk = load_simulator("process", "loan_desk", "", "", "weekly", {}).simulator
    assert copies_per_update(config(), desk) == 6
    assert decisions_per_update(config(), desk) == pytest.approx(372_000, rel=0.01)


def test_short_episodes_are_played_in_as_many_copies_as_fill_a_rollout_up_to_a_limit():
    class Longer(Bandit):
        max_steps = 5_000

    assert copies_per_update(config(), Longer()) == 74
    assert copies_per_update(config(), Shop()) == 1024


def test_the_users_number_and_rollout_steps_come_first():
    assert copies_per_update(config(episodes_per_update=3), Shop()) == 3
    assert copies_per_update(config(rollout_steps=100), Shop()) == 1
    assert decisions_per_update(config(rollout_steps=100, episodes_per_update=3), Shop()) == 300
