"""Simulators as Gymnasium environments: against the fused loop, Gymnasium's own check, Stable-Baselines3."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from helpers.toy_runs import SEED, toy_collector, toy_episodes, toy_model
from oracles.slow_episode import on_bounds
from oracles.toy_simulators import NAN_REWARD, Bandit, Choices, FaultParameters, Faulty, Shop, Squashed, Tracker

from longstride.errors import SimulatorError, UserError
from longstride.seeding import stream
from longstride.simulators.classic_control import CartPole, Pendulum
from longstride.simulators.gym.adapter import to_gymnasium


def replay(simulator, trajectory, number):
    """Play a trajectory's actions on the random stream that it was played with."""
    env = to_gymnasium(simulator)
    env.np_random = stream(SEED, "simulator", number)
    observation, info = env.reset()
    steps = []
    for t in range(trajectory.steps):
        assert np.array_equal(observation, trajectory.observations[t])
        if trajectory.masks.size:
            assert np.array_equal(info["action_mask"], trajectory.masks[t])
            assert np.array_equal(env.action_masks(), trajectory.masks[t])
        action = on_bounds(simulator.action_space, trajectory.actions[t])
        assert env.action_space.contains(action)
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append((reward, terminated, truncated))
    assert np.array_equal(observation, trajectory.observations[-1])
    return steps, info


@pytest.mark.parametrize("kind", ["bandit", "choices", "tracker", "shop"])
def test_the_same_actions_give_the_trajectory_of_the_fused_loop(kind):
    simulator, model = toy_collector(kind).simulator, toy_model(kind)
    for number, episode in enumerate(toy_episodes(kind, model, 4)):
        steps, info = replay(simulator, episode.trajectory, number)
        rewards, terminated, truncated = (np.array(column) for column in zip(*steps, strict=True))
        assert rewards.sum() == pytest.approx(episode.finished[0].total_reward, abs=1e-12)
        assert np.array_equal(rewards.astype(np.float32), episode.trajectory.rewards)
        assert np.array_equal(terminated, episode.trajectory.terminated)
        assert np.array_equal(truncated, episode.trajectory.truncated)
        assert info["metrics"] == episode.finished[0].metrics


@pytest.mark.parametrize("simulator", [CartPole(), Pendulum(), Tracker(), Squashed()])
def test_gymnasium_finds_nothing_wrong(simulator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(to_gymnasium(simulator), skip_render_check=True)


@pytest.mark.parametrize(
    ("simulator", "space"),
    [
        (Bandit(), spaces.Discrete(4)),
        (Choices(), spaces.MultiDiscrete([3, 2, 4])),
        (Pendulum(), spaces.Box(-2, 2, (1,), np.float32)),
    ],
)
def test_spaces(simulator, space):
    env = to_gymnasium(simulator)
    assert env.action_space == space
    assert env.observation_space == spaces.Box(-np.inf, np.inf, (simulator.observation_size,), np.float32)


def test_one_seed_is_one_episode_and_the_next_reset_goes_on():
    env = to_gymnasium(Shop())

    def play(seed):
        env.reset(seed=seed)
        return [env.step(0)[0].tolist() for _ in range(3)]

    first, other = play(3), play(4)
    assert first != other
    assert play(3) == first
    assert play(None) != first


def test_a_forbidden_action_is_a_sentence():
    env = to_gymnasium(Bandit())
    _, info = env.reset(seed=0)
    while info["action_mask"].all():
        info = env.step(0)[-1]
    allowed = np.flatnonzero(info["action_mask"]).tolist()
    forbidden = int(np.argmin(info["action_mask"]))
    where = r"Bandit, episode 0, step \d+: the mask forbids"
    with pytest.raises(UserError, match=rf"{where} {forbidden} in action {forbidden}, allowed are \{allowed}"):
        env.step(forbidden)
    env.step(allowed[0])


@pytest.mark.parametrize(
    ("simulator", "action"),
    [(CartPole(), 2), (CartPole(), -1), (CartPole(), 0.5), (Pendulum(), [np.nan]), (Pendulum(), [0.0, 0.0])],
)
def test_an_action_that_is_none_is_a_sentence(simulator, action):
    env = to_gymnasium(simulator)
    env.reset(seed=0)
    with pytest.raises(UserError, match="is not in"):
        env.step(action)


def test_step_needs_an_episode():
    with pytest.raises(UserError, match=r"call reset\(\) first"):
        to_gymnasium(CartPole()).step(0)


def test_a_fault_of_the_simulator_is_a_sentence():
    simulator = Faulty()
    simulator.parameters = FaultParameters(NAN_REWARD, 2)
    env = to_gymnasium(simulator)
    env.reset(seed=0)
    env.step(0)
    env.step(0)
    with pytest.raises(SimulatorError, match="Faulty, episode 0, step 2: step returned a reward that is NaN"):
        env.step(0)


def test_stable_baselines3_checks_it_and_trains_on_it():
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_checker import check_env as check_for_baselines

    for simulator in (CartPole(), Pendulum()):
        env = to_gymnasium(simulator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_for_baselines(env)
            model = PPO("MlpPolicy", env, n_steps=128, batch_size=64, device="cpu")
            before = [p.clone() for p in model.policy.parameters()]
            model.learn(300)
        assert model.num_timesteps == 384
        assert any(not a.equal(b) for a, b in zip(before, model.policy.parameters(), strict=True))
