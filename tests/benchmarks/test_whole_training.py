"""The trainers of end_to_end.py at a tiny size: equal work, and the peers' PPO against this project's own functions."""

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from benchmarks import end_to_end
from benchmarks.long_queue import LongQueueEnvironment
from benchmarks.peers import cleanrl_style, leanrl_style, whole_longstride
from benchmarks.peers.cleanrl_style import Agent, Batch, Collector, advantages_of, loss_of, one_environment
from benchmarks.peers.work import Done, Work
from longstride.learning.advantages import gae
from longstride.learning.algorithms.interface import PolicyOutputs, Samples
from longstride.learning.algorithms.ppo import Ppo, PpoCoefficients
from longstride.policies.distributions import masked_log_softmax

TINY = Work(steps=48, epochs=3, batch=16, rounds=2, actor=(16, 16), critic=(24,))


def without_compiling(function, **_):
    return function


def torch_adam_of(module, monkeypatch):
    """Return a list of the optimisers that a trainer makes."""
    made, adam = [], torch.optim.Adam

    def make(*arguments, **named):
        made.append(adam(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(module.torch.optim, "Adam", make)
    return made


@pytest.fixture
def rollout():
    """48 steps over episodes of 20, from an agent with random weights."""
    torch.manual_seed(1)
    agent = Agent(TINY)
    return agent, Collector(agent, one_environment(20)).collect(48)


def test_every_trainer_does_the_same_work(monkeypatch):
    """Of hand: 33 x 16 + 17 x 16 + 17 x 8 weights act, 33 x 24 + 25 judge; 2 rounds x 3 epochs x 48 / 16 steps."""
    counted = {"collected": 96, "optimizer_steps": 18, "minibatch": 16, "parameters": 936 + 817}
    assert TINY.expected == counted
    monkeypatch.setattr(leanrl_style.torch.distributions.Distribution, "set_default_validate_args", lambda _: None)
    made = torch_adam_of(cleanrl_style, monkeypatch)
    for done in (
        whole_longstride.train(TINY),
        cleanrl_style.train(TINY),
        leanrl_style.train(TINY, without_compiling),
    ):
        assert done.work == counted
        assert len(done.collecting) == len(done.updating) == 2
    assert len(made) == 2
    assert all(sum(p.numel() for p in adam.param_groups[0]["params"]) == 936 + 817 for adam in made)


def test_stable_baselines3_does_the_same_work():
    pytest.importorskip("stable_baselines3")
    from benchmarks.peers import whole_stable_baselines

    assert whole_stable_baselines.train(TINY).work == TINY.expected


def test_other_work_is_refused():
    done = Done([2.0, 4.0, 3.0], [1.0, 1.0, 5.0], 0.5, {**TINY.expected})
    figures = done.figures(TINY)
    assert figures["collect_steps_per_second"] == 16.0  # 48 in the median of 3 seconds
    assert figures["steps_per_second"] == 12.0
    with pytest.raises(ValueError, match="is not the work"):
        Done([1.0], [1.0], 0.0, {**TINY.expected, "optimizer_steps": 17}).figures(TINY)


def test_a_rollout_of_the_cleanrl_style_is_what_the_environment_does(rollout):
    """The same actions in a fresh environment; each row's log-probability and value are the agent's of that row."""
    agent, found = rollout
    environment = LongQueueEnvironment(20)
    seen, done = environment.reset(seed=0)[0], False
    for t in range(48):
        np.testing.assert_array_equal(found.observations[t, 0], seen)
        assert bool(found.dones[t, 0]) == done
        seen, reward, done, _, _ = environment.step(int(found.actions[t, 0]))
        assert found.rewards[t, 0].item() == pytest.approx(reward)
        seen = environment.reset()[0] if done else seen
    np.testing.assert_array_equal(found.following[0], seen)
    assert found.dones.sum() == 2
    with torch.no_grad():
        _, log_probs, _, values = agent.get_action_and_value(found.observations[:, 0], found.actions[:, 0])
    torch.testing.assert_close(log_probs, found.log_probs[:, 0])
    torch.testing.assert_close(values[:, 0], found.values[:, 0])


def test_advantages_are_ours(rollout):
    _, found = rollout
    values, following = found.values.numpy()[:, 0], np.array([0.7], np.float32)
    ended = found.dones.numpy()[1:, 0].astype(bool)
    rewards = found.rewards.numpy()[:, 0]
    expected, _ = gae(rewards, values, np.append(values[1:], following), np.full(48, 0.99), ended, ended, 0.95)
    np.testing.assert_allclose(advantages_of(found, torch.tensor([0.7]))[:, 0], expected, rtol=1e-5, atol=1e-6)
    listed = rewards.tolist(), [*values.tolist(), 0.7], ended.tolist()
    np.testing.assert_allclose(leanrl_style.advantages_of(*listed), expected, rtol=1e-5, atol=1e-6)


def test_the_loss_and_its_gradient_are_ours(rollout, monkeypatch):
    agent, found = rollout
    monkeypatch.setattr(cleanrl_style, "ENTROPY_COEFFICIENT", 0.3)
    observations, actions = found.observations[:, 0], found.actions[:, 0].long()
    rng = torch.Generator().manual_seed(3)
    log_probs = found.log_probs[:, 0] + 0.3 * torch.randn(48, generator=rng)  # so that ratios are clipped
    advantages, returns = torch.randn(48, generator=rng), torch.randn(48, generator=rng)
    loss, kl, clipped = loss_of(agent, Batch(observations, actions, log_probs, advantages, returns))
    gradients = torch.autograd.grad(loss, list(agent.parameters()))

    mask = torch.ones(48, 8, dtype=torch.bool)
    logs = masked_log_softmax(agent.actor(observations), mask)
    normalised = (advantages - advantages.mean()) / advantages.std()
    values, share = agent.critic(observations)[:, 0], torch.full((48,), 1 / 48)
    targets = normalised, returns, values.detach()
    samples = Samples(observations, actions, log_probs, mask, mask[..., :0], *targets)
    taken = logs.gather(1, actions[:, None])[:, 0]
    outputs, coefficients = (
        PolicyOutputs(logs, taken, -(logs.exp() * logs).sum(1), values),
        PpoCoefficients(0.2, 0.3, 1.0),
    )
    total, terms = Ppo(0.95, coefficients).loss(outputs, samples, share, coefficients)
    torch.testing.assert_close(loss, total)
    torch.testing.assert_close(kl, terms.approx_kl)
    assert 0.2 < clipped.item() == pytest.approx(terms.clip_fraction.item())
    for found_, expected in zip(gradients, torch.autograd.grad(total, list(agent.parameters())), strict=True):
        torch.testing.assert_close(found_, expected)


def test_an_exponential_race_draws_with_the_policys_probabilities():
    """20,000 draws: each frequency within five standard deviations of its probability."""
    torch.manual_seed(5)
    agent = Agent(TINY)
    with torch.no_grad():
        agent.actor[-1].bias.copy_(torch.linspace(-1.5, 1.5, 8))
        observations = torch.randn(1, 32).expand(20_000, 32)
        actions, log_probs, values = leanrl_style.act(agent, observations)
        expected = torch.distributions.Categorical(logits=agent.actor(observations[:1]))
    frequencies = torch.bincount(actions, minlength=8) / 20_000
    probabilities = expected.probs[0]
    assert ((frequencies - probabilities).abs() < 5 * (probabilities * (1 - probabilities) / 20_000).sqrt()).all()
    torch.testing.assert_close(log_probs, expected.log_prob(actions))
    torch.testing.assert_close(values, agent.critic(observations))


def test_the_table_compares_with_longstride():
    ours = {"collect_steps_per_second": 500_000.0, "update_seconds": 5.0, "steps_per_second": 12_000.0}
    theirs = {"collect_steps_per_second": 2_500.0, "update_seconds": 8.125, "steps_per_second": 2_000.0}
    found = {"longstride": {**ours, "compile_seconds": 4.0}, "cleanrl": {**theirs, "compile_seconds": 0.0}}
    assert end_to_end.table(found).splitlines()[2:] == [
        "| longstride | 500,000 | 5.00 | 12,000 | 4.0 |  |  |",
        "| cleanrl | 2,500 | 8.12 | 2,000 | 0.0 | 200.0 times | 6.0 times |",
    ]
    assert "times" not in end_to_end.table({"cleanrl": found["cleanrl"]})


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(end_to_end.importlib.util, "find_spec", lambda name: None if name.startswith("stable") else 1)
    monkeypatch.setattr(end_to_end.shutil, "which", lambda name: None)
    found = {name: end_to_end.missing(name) for name in end_to_end.TRAINERS}
    assert found["longstride"] == found["cleanrl"] == ""
    assert found["stable_baselines3"].startswith("stable_baselines3 is not installed")
    assert found["leanrl"] == "torch.compile needs a C++ compiler"
