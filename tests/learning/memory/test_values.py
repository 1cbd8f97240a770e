"""Values of a critic with memory against one that is shown one observation after the other."""

import numpy as np
import pytest
import torch
from helpers.memory_rollouts import (
    memory_update,
    memory_updater,
    random_memory_model,
    random_trajectory,
    rollout_with,
    shop_collector,
    shop_model,
)
from helpers.toy_runs import discounts_of, rollout_batch
from oracles.slow_memory import SlowNetwork

from longstride.learning.algorithms.ppo import Ppo
from longstride.learning.memory.chunks import chunk_rows
from longstride.learning.memory.values import values_in_order
from longstride.policies.memory import Memory
from longstride.policies.spec import CHUNK

CASES = {
    "one step": [(1, True, (), ())],
    "a chunk": [(CHUNK, False, (), ())],
    "one more": [(CHUNK + 1, False, (), ())],
    "ends and cuts": [(300, False, (40, 41, 200), (0, 127, 128, 255, 298))],
    "ends at the end": [(200, True, (199,), (100,)), (200, True, (), (199,))],
    "of several lengths": [
        (3, True, (), (1,)),
        (400, False, (5,), (383, 384)),
        (129, True, (), (127, 128)),
        (1, 0, (), ()),
    ],
    "many cuts": [(140, False, (), range(0, 139, 2)), (140, False, (), range(140))],
}


def expected_of(model, trajectories, carried):
    """Return values, final values, states before each chunk and those carried on, one observation at a time.

    After a cut the critic values the observation before the next episode with the memory of the episode that is cut.
    """
    critic, values, finals, states, after = SlowNetwork(model, "critic"), [], [], [], []
    for t, start in zip(trajectories, carried, strict=True):
        state, cuts, last = start, [], t.steps - 1
        for step in range(t.steps):
            if step % CHUNK == 0:
                states.append(state)
            state = np.zeros_like(state) if t.begins[step, 0] else state
            value, state = critic.step(t.observations[step], state)
            values.append(value[0])
            if t.truncated[step] and step < last:
                cuts.append(critic.step(t.cut_observations[len(cuts)], state)[0][0])
        finals += [critic.step(t.observations[-1], state)[0][0], *cuts]
        after.append(state)
    return values, finals, np.stack(states), np.stack(after)


def found_of(model, trajectories, carried, most):
    """Return what values_in_order says."""
    final = [part for t in trajectories for part in (t.observations[-1:], t.cut_observations)]
    columns = [t.observations[:-1] for t in trajectories], final, [t.begins for t in trajectories]
    steps, final, begins = (torch.from_numpy(np.concatenate(parts)) for parts in columns)
    starts = chunk_rows([t.steps for t in trajectories], CHUNK, model.spec.context).starts
    start = torch.from_numpy(carried.astype(np.float32))
    found = values_in_order(model, trajectories, starts, (steps, final), begins, start, most)
    np.testing.assert_array_equal(start, carried.astype(np.float32))
    return found


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_values_are_those_of_one_observation_after_the_other(case, most):
    model, rng = random_memory_model(), np.random.default_rng(0)
    trajectories = [random_trajectory(steps, bool(begin), k, *ends) for k, (steps, begin, *ends) in enumerate(case)]
    carried = rng.normal(size=(len(case), 48)).astype(np.float32)
    found = found_of(model, trajectories, carried, most)
    for one, expected in zip(found, expected_of(model, trajectories, carried.astype(np.float64)), strict=True):
        np.testing.assert_allclose(one.numpy(), expected, rtol=1e-4, atol=2e-5)


def test_how_many_trajectories_go_at_once_changes_little_but_rounding():
    model = random_memory_model()
    trajectories = [random_trajectory(n, True, n, truncated=(n // 2,)) for n in (100, 300, 129, 260)]
    many, one = (found_of(model, trajectories, np.zeros((4, 48)), most) for most in (100, 1))
    for a, b in zip(many, one, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_the_critic_learns_with_the_memory_with_which_it_has_valued():
    """The chunks of an update, in any order, have the values of before it."""
    model, rng = random_memory_model(), np.random.default_rng(0)
    trajectories = [random_trajectory(n, False, n, (n // 3,), (n // 2, n - 1)) for n in (300, 129, 40)]
    found = found_of(model, trajectories, rng.normal(size=(3, 48)), 2)
    rows, valid, *_ = chunk_rows([300, 129, 40], CHUNK)
    observations, begins = (
        torch.from_numpy(np.concatenate(parts))
        for parts in ([t.observations[:-1] for t in trajectories], [t.begins for t in trajectories])
    )
    for chunk in rng.permutation(len(rows)):
        steps = torch.from_numpy(rows[chunk])
        memory = Memory(found.states[[chunk]], begins[steps])
        with torch.no_grad():
            values = model.values(model.normalise(observations[steps]), memory=memory)
        torch.testing.assert_close(values[valid[chunk]], found.values[rows[chunk][valid[chunk]]], rtol=1e-5, atol=1e-6)


def still(**changes):
    """Return an updater whose steps change nothing, so that a critic can be followed over rollouts."""
    model = shop_model()
    return model, memory_updater(model, learning_rate_actor=0.0, learning_rate_critic=0.0, **changes)


def test_the_critic_remembers_from_one_rollout_to_the_next():
    """Instances are in the middle of an episode where a rollout ends, after 50 steps of episodes of at most 30."""
    model, updater = still()
    collector, critic = shop_collector(3, 50), SlowNetwork(model, "critic")
    states = np.zeros((3, 48))
    for _ in range(3):
        rollout = rollout_with(model, collector, 3)
        memory_update(updater, rollout)
        for i, (t, *_) in enumerate(rollout):
            states[i] = critic.play(t.observations[:-1], t.begins[:, 0], states[i]).states[-1]
        np.testing.assert_allclose(updater._critic_states.numpy(), states, rtol=1e-4, atol=1e-5)
    assert not all(t.begins[0, 0] for t, *_ in rollout), "an episode that continues"


def test_the_critics_memory_goes_through_a_checkpoint():
    model, updater = still()
    collector = shop_collector(2, 70)
    memory_update(updater, rollout_with(model, collector, 2))
    tensors, metadata = updater.state_dict()
    assert tensors["critic_states"].shape == (2, 48)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    _, other = still()
    other.load_state_dict(tensors, metadata)
    rollout = rollout_with(model, collector, 2)
    one, two = (memory_update(each, rollout) for each in (updater, other))
    assert one.explained_variance == two.explained_variance
    assert torch.equal(updater._critic_states, other._critic_states)


def test_values_do_not_depend_on_how_a_run_is_divided_into_rollouts():
    """A trajectory of 200 steps, and the same in rollouts of 90 and 110."""
    whole = random_trajectory(200, True, 0, truncated=(150,), terminated=(30,))
    model = random_memory_model()
    expected = found_of(model, [whole], np.zeros((1, 48)), 1)
    first, second = whole.first(90), random_trajectory(110, False, 1, truncated=(60,))
    second = second._replace(
        **{n: getattr(whole, n)[90:] for n in ("observations", "begins", "terminated", "truncated")},
        cut_observations=whole.cut_observations,
    )
    one = found_of(model, [first], np.zeros((1, 48)), 1)
    two = found_of(model, [second], one.carried.numpy(), 1)
    torch.testing.assert_close(torch.cat([one.values, two.values]), expected.values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two.final_values, expected.final_values, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two.carried, expected.carried, rtol=1e-4, atol=1e-5)


def test_memory_that_runs_out_makes_fewer_trajectories_go_at_once(monkeypatch):
    model, updater = still(microbatch=4 * CHUNK)
    rollout, seen = rollout_with(model, shop_collector(3, 50), 3), []
    values_and_states = model.values_and_states

    def failing(normalised, memory, after):
        seen.append(len(normalised) // CHUNK)
        if len(seen) == 1:
            raise MemoryError
        return values_and_states(normalised, memory, after)

    monkeypatch.setattr(model, "values_and_states", failing)
    report = memory_update(updater, rollout)
    assert seen == [3, 1, 1, 1]
    assert [event["phase"] for event in report.out_of_memory] == ["values"]


@pytest.mark.parametrize("weights", [1e38, 3e38])
def test_a_run_recovers_from_a_critic_that_diverged(weights):
    """Its parameters go back to good ones. Its memory must not stay huge, or NaN, which no reset clears."""
    model, updater = still()
    collector = shop_collector(2, 50)
    memory_update(updater, rollout_with(model, collector, 2))
    with torch.no_grad():
        model.layers("critic")[1][0].mul_(weights)
    diverged = memory_update(updater, rollout_with(model, collector, 2))
    assert len(diverged.fallbacks) == 1
    for _ in range(3):
        assert memory_update(updater, rollout_with(model, collector, 2)).skipped_steps == 0


def test_a_rollout_of_other_trajectories_begins_without_memory():
    """As in the warm-up, or where a run has other instances."""
    model, updater = still()
    memory_update(updater, rollout_with(model, shop_collector(2, 50), 2))
    memory_update(updater, rollout_with(model, shop_collector(3, 50), 3))
    assert updater._critic_states.shape == (3, 48)


def test_the_state_after_a_step_of_padding_is_never_carried():
    """The last chunk of 50 steps has 78 places of padding; one long enough for none is carried alike."""
    model = random_memory_model()
    long = random_trajectory(CHUNK, True, 0)
    short = long.first(50)
    found = found_of(model, [short, long], np.zeros((2, 48)), 2)
    slow = SlowNetwork(model, "critic")
    for row, t in zip(found.carried.numpy(), (short, long), strict=True):
        expected = slow.play(t.observations[:-1], t.begins[:, 0]).states[-1]
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def prepared_twice(updater, rollouts):
    """Return the samples of two rollouts that go up one after the other."""
    samples = []
    for rollout in rollouts:
        batch = rollout_batch([each.trajectory for each in rollout], discounts_of(rollout))
        samples.append(updater._prepare(batch, updater._chunks(batch))[0].samples)
    return samples


def test_the_columns_of_a_rollout_stay_in_their_place_where_a_captured_step_reads_them():
    """Else the step is captured anew in every update in which they lie elsewhere."""
    model, updater = still(executions=("eager", "graph"))
    collector = shop_collector(2, 150)
    first, second = prepared_twice(updater, [rollout_with(model, collector, 2) for _ in range(2)])
    moved = [
        one.shape
        for one, other in zip(first.tensors, second.tensors, strict=True)
        if one.data_ptr() != other.data_ptr()
    ]
    assert moved == []


class SomeSteps(Ppo):
    """PPO that learns from some steps: every third one, and none of the first 130."""

    learns_from_all = False

    def targets(self, *arguments):
        targets = super().targets(*arguments)
        steps = np.arange(len(targets.returns))
        return targets._replace(learned_from=(steps % 3 == 0) & (steps >= 130))


def test_the_epochs_use_the_steps_that_are_learned_from_and_each_weighs_the_same():
    """300 steps are three chunks, of which the first has none; the loss of the critic is their mean."""
    model, updater = still()
    updater.algorithm = updater.stepper.algorithm = SomeSteps(0.9, updater.algorithm.coefficients)
    collector, seen = shop_collector(1, 300), []
    rollout, prepare = rollout_with(model, collector, 1), updater._prepare

    def noting(*arguments):
        seen.append(prepare(*arguments))
        return seen[-1]

    updater._prepare = noting
    report = memory_update(updater, rollout)
    (prepared, _), used = seen[0], np.arange(130, 300)
    used = used[used % 3 == 0]
    samples = prepared.samples
    assert prepared.learned_from.tolist() == [1, 2]
    assert samples.chunks.rows[samples.chunks.valid > 0].tolist() == used.tolist()
    minibatch = samples.at(torch.arange(3))
    with torch.no_grad():
        values = model.values(model.normalise(minibatch.observations), memory=minibatch.critic_memory)
    errors = 0.5 * (values[:300] - samples.returns).square()
    assert report.losses["value_loss"] == pytest.approx(float(errors[torch.from_numpy(used)].mean()), rel=1e-4)
