"""Branches of a simulator with every kind of end: against slow ones, beside an unchanged trunk, and as steps."""

from typing import NamedTuple

import numpy as np
import pytest
from helpers.group_runs import BRANCHES, GROUP, assert_same_bits, copied, group_collector, shop_model
from helpers.short_shop import ShortShop
from helpers.toy_runs import SEED, actor_weights
from oracles.slow_branches import branch_slowly

from longstride.rollout.branches import Branches, BranchPlan, BranchPlayer
from longstride.rollout.trajectory import Trajectory

STEPS, INSTANCES, ROUNDS = 50, 3, 3


class Decision(NamedTuple):
    """A decision that branches were played from, with the simulator's record before it, and its branches."""

    record: np.ndarray
    name: tuple[int, ...]
    branches: Branches


class Rollout(NamedTuple):
    """What an instance collected in a round, and the decisions that were sampled."""

    trunk: Trajectory
    finished: list
    branches: Branches
    decisions: list[Decision]


def collected_with(plan, steps=STEPS, rounds=ROUNDS, threads=1):
    """Return the rollouts of each instance, round after round, of a plan of branches."""
    collector, weights, results = group_collector(steps, INSTANCES, threads, branches=plan), actor_weights(MODEL), []
    for _ in range(rounds):
        played = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BranchPlayer, "play", noting(BranchPlayer.play, played))
            instances = [copied(each) for each in collector.collect(weights, 0, INSTANCES)[0]]
        for i, each in enumerate(instances):
            mine = [(record, name) for record, name in played if name[1] == i]
            rows = (slice(k * plan.size, (k + 1) * plan.size) for k in range(len(mine)))
            decisions = [Decision(*of, each.branches.select(row)) for of, row in zip(mine, rows, strict=True)]
            results.append(Rollout(each.trajectory, each.finished, each.branches, decisions))
    return results


def noting(play, played):
    """Return what plays branches and notes the record and the name of each decision first."""

    def noted(player, actor_params, states, age, name, into):
        assert age == name[-1]
        played.append((states[0].copy(), name))
        play(player, actor_params, states, age, name, into)

    return noted


MODEL = shop_model()


@pytest.fixture(scope="module")
def shop():
    return collected_with(BRANCHES)


@pytest.fixture(scope="module")
def decisions(shop):
    return [decision for rollout in shop for decision in rollout.decisions]


def test_the_trunk_is_the_rollout_without_branches_to_the_bit(shop):
    collector, rollouts = group_collector(STEPS, INSTANCES), iter(shop)
    for _ in range(ROUNDS):
        for plain in collector.collect(actor_weights(MODEL), 0, INSTANCES)[0]:
            rollout = next(rollouts)
            assert_same_bits(plain.trajectory, rollout.trunk)
            assert [each.metrics for each in plain.finished] == [each.metrics for each in rollout.finished]
            assert plain.branches is None


def test_branches_are_the_slow_ones(decisions):
    for record, name, found in decisions:
        assert name[0] == SEED
        for i, slow in enumerate(branch_slowly(ShortShop(), MODEL, record, BRANCHES, name)):
            n, first = found.lengths[i], found.first
            assert n == len(slow.rewards)
            assert np.array_equal(found.rewards[i, :n], np.array(slow.rewards, np.float32))
            assert np.array_equal(found.elapsed[i, :n], slow.elapsed)
            assert np.array_equal(found.ends[i], slow.end)
            assert found.terminated[i] == slow.terminated
            assert first.actions[i] == slow.action
            assert first.log_probs[i] == pytest.approx(slow.log_prob, abs=1e-5)
            for name, of in {"observations": slow.observation, "masks": slow.mask, "features": slow.features}.items():
                assert np.array_equal(getattr(first, name)[i], of), name


def test_nothing_is_left_of_others_after_an_end(decisions):
    for decision in decisions:
        after = np.arange(BRANCHES.length) >= decision.branches.lengths[:, None]
        assert not decision.branches.rewards[after].any()
        assert not decision.branches.elapsed[after].any()


def test_branches_end_in_every_way(decisions):
    """Some terminate or are cut in the middle, one at its first decision, some take all their decisions."""
    lengths, terminated = (
        np.concatenate([getattr(each.branches, name) for each in decisions]) for name in ("lengths", "terminated")
    )
    ages = np.concatenate([each.branches.lengths + each.name[-1] for each in decisions])
    assert (terminated & (lengths > 1) & (lengths < BRANCHES.length)).any()
    assert (terminated & (lengths == 1)).any()
    cut = ~terminated & (lengths < BRANCHES.length)
    assert cut.any()
    assert (ages[cut] == ShortShop.max_steps).all(), "by max_steps, counted from the begin of the episode"
    assert (~terminated & (lengths == BRANCHES.length) & (ages < ShortShop.max_steps)).any()


def bytes_of(branches, i):
    """Return what one branch holds, but its log-probability."""
    first = [getattr(branches.first, name)[i] for name in ("observations", "actions", "masks", "features")]
    rest = [column[i] for column in branches[1:]]
    return [np.ascontiguousarray(column).tobytes() for column in (*first, *rest)]


def test_branches_differ_exactly_where_their_first_actions_do(decisions):
    pairs = [
        (branches.first.actions[i] == branches.first.actions[j], bytes_of(branches, i) == bytes_of(branches, j))
        for *_, branches in decisions
        for i in range(GROUP)
        for j in range(i)
    ]
    assert all(same_action == same for same_action, same in pairs)
    assert 10 < sum(same for same, _ in pairs) < len(pairs) - 10


def ages_of(rollout, episode, age):
    """Return (episode, age) before each row of a trunk that begins with these."""
    ended, places = rollout.trunk.terminated | rollout.trunk.truncated, []
    for end in ended:
        places.append((episode, age))
        episode, age = (episode + 1, 0) if end else (episode, age + 1)
    return places, (episode, age)


def rows_of(rollouts):
    """Return the rows that were sampled in each rollout, for rollouts of all instances, round after round."""
    begins, rows = [(0, 0)] * INSTANCES, []
    for place, rollout in enumerate(rollouts):
        i = place % INSTANCES
        places, begins[i] = ages_of(rollout, *begins[i])
        assert all(decision.name[:2] == (SEED, i) for decision in rollout.decisions)
        rows.append([places.index(decision.name[2:]) for decision in rollout.decisions])
    return rows


def test_sampled_decisions_are_distinct_rows_of_the_trunk_in_their_order(shop):
    """Ten decisions of 50 are 5; where one of them would begin an episode, it is left out."""
    everything = rows_of(shop)
    for rows, rollout in zip(everything, shop, strict=True):
        assert rows == sorted(set(rows))
        assert set(rows) <= set(range(1, STEPS))
        assert 3 <= len(rows) <= 5
        assert len(rollout.branches.lengths) == GROUP * len(rows)
        observed = rollout.branches.first.observations.reshape(len(rows), GROUP, -1)
        assert (observed == rollout.trunk.observations[rows][:, None]).all()
    assert len({tuple(rows) for rows in everything}) == len(everything), "each rollout has others"


@pytest.fixture(scope="module")
def everywhere():
    """Branches of one decision from every row."""
    return collected_with(BranchPlan(GROUP, 1, 1), rounds=2)


def test_where_an_episode_has_just_ended_no_branch_is_played(everywhere):
    for rows, (trunk, *_) in zip(rows_of(everywhere), everywhere, strict=True):
        ended = trunk.terminated | trunk.truncated
        assert rows == [row for row in range(1, STEPS) if not ended[row - 1]]
        assert ended[:-1].any()


def test_branches_of_one_decision_end_after_it(everywhere):
    for *_, branches, decisions in everywhere:
        assert branches.rewards.shape == (len(branches.lengths), 1)
        assert (branches.lengths == 1).all()
        for record, name, found in decisions[:5]:
            slow = branch_slowly(ShortShop(), MODEL, record, BranchPlan(GROUP, 1, 1), name)
            assert found.rewards[:, 0].tolist() == [np.float32(each.rewards[0]) for each in slow]
            assert np.array_equal(found.ends, [each.end for each in slow])
            assert found.terminated.tolist() == [each.terminated for each in slow]
    assert any(branches.terminated.any() for *_, branches, _ in everywhere)


def test_threads_change_no_bit(shop):
    for one, other in zip(shop, collected_with(BRANCHES, threads=3), strict=True):
        assert_same_bits(one.trunk, other.trunk)
        assert [bytes_of(one.branches, i) for i in range(len(one.branches.lengths))] == [
            bytes_of(other.branches, i) for i in range(len(other.branches.lengths))
        ]
        assert one.branches.first.log_probs.tobytes() == other.branches.first.log_probs.tobytes()


def test_another_size_of_rollouts_keeps_the_trunk():
    """Rollouts of 20 and 30 steps have the rows of one of 50, and branches from both."""
    (whole,), parts = ([group_collector(STEPS, 1, branches=BRANCHES).collect(actor_weights(MODEL), 0, 1)[0][0]], [])
    collector = group_collector(STEPS, 1, branches=BRANCHES)
    for steps in (20, 30):
        collector.resize(steps)
        parts.append(copied(collector.collect(actor_weights(MODEL), 0, 1)[0][0]))
    for name in ("actions", "log_probs", "rewards", "masks", "elapsed", "terminated", "truncated"):
        pieces = np.concatenate([getattr(part.trajectory, name) for part in parts])
        assert np.array_equal(pieces, getattr(whole.trajectory, name)), name
    assert all(0 < len(part.branches.lengths) <= GROUP * len(part.trajectory.actions) // 10 for part in parts)


def test_branches_as_steps_against_loops(shop):
    """All branches of a rollout, and those before each of them: the last one is cut, or terminated."""
    rng, last = np.random.default_rng(0), set()
    for *_, everything, _ in shop:
        discounts = rng.uniform(0.5, 1.0, everything.rewards.shape)
        for count in range(1, len(everything.lengths) + 1):
            branches = everything.select(slice(0, count))
            assert_steps(branches, discounts[:count], *branches.as_steps(discounts[:count]))
            last.add(bool(branches.terminated[-1]))
    assert last == {True, False}


def assert_steps(branches, discounts, steps, products):
    """Check steps and their discounts against sums of loops."""
    cuts = []
    for i, length in enumerate(branches.lengths):
        worth, factor = 0.0, 1.0
        for k in range(length):
            worth, factor = worth + factor * float(branches.rewards[i, k]), factor * discounts[i, k]
        assert steps.rewards[i] == pytest.approx(worth, rel=1e-6, abs=1e-6)
        assert products[i] == pytest.approx(factor, rel=1e-12)
        assert steps.elapsed[i] == pytest.approx(branches.elapsed[i].sum())
        assert steps.truncated[i] == (not steps.terminated[i])
        cuts += [branches.ends[i]] if steps.truncated[i] and i < len(branches.lengths) - 1 else []
    assert np.array_equal(steps.cut_observations, np.reshape(cuts, (-1, ShortShop.observation_size)))
    assert np.array_equal(steps.observations[:-1], branches.first.observations)
    assert np.array_equal(steps.observations[-1], branches.ends[-1])
    assert (steps.rewards.dtype, steps.control_variate.any()) == (np.float32, False)


def test_a_branch_as_a_step_by_hand():
    """Rewards 1, 2, 4 at discounts 1/2, 1/4, 1/8; the second branch ended after two decisions.

    First: 1 + 2/2 + 4/8 = 2.5, then the end's value times 1/64. Second: 1 + 2/2 = 2, then 1/8 times it.
    """
    (rollout,) = group_collector(STEPS, 1, branches=BRANCHES).collect(actor_weights(MODEL), 0, 1)[0]
    two = rollout.branches.select(slice(0, 2))._replace(
        rewards=np.array([[1, 2, 4], [1, 2, 0]], np.float32), lengths=np.array([3, 2])
    )
    steps, products = two.as_steps(np.array([[0.5, 0.25, 0.125]] * 2))
    assert steps.rewards.tolist() == [2.5, 2.0]
    assert products.tolist() == [1 / 64, 1 / 8]


def test_a_rollout_without_a_branch_has_steps_of_its_shape():
    (rollout,) = group_collector(50, 1, branches=BRANCHES).collect(actor_weights(shop_model()), 0, 1)[0]
    steps, _ = rollout.branches.select(slice(0, 0)).as_steps(np.ones((0, BRANCHES.length)))
    assert steps.steps == 0
    assert len(steps.observations) == 1
