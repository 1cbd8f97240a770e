"""Collectors whose instances play on players, and the same played locally, for the tests of hosts."""

from helpers.specs import actor_spec
from helpers.toy_runs import HIDDEN, KINDS

from longstride.rollout.episode_collector import EpisodeCollector
from longstride.rollout.fixed_length_collector import FixedLengthCollector
from longstride.rollout.hosts.collector import HostsCollector
from longstride.rollout.hosts.pool import Job, LocalPool


def spec_of(kind):
    """Return a toy and the spec of its policy."""
    simulator, activation = KINDS[kind]
    toy = simulator()
    return toy, actor_spec(toy, (toy.observation_size, *HIDDEN, toy.action_space.outputs), activation)


def local_collector(kind, plan):
    """Return the collector of local play."""
    return (FixedLengthCollector if plan.steps else EpisodeCollector)(*spec_of(kind), plan)


def hosts_collector(kind, plan, lag=0, pool=None):
    """Return the collector of a pool, by default one of two threads here."""
    simulator, spec = spec_of(kind)
    source = {"simulator": f"oracles.toy_simulators:{type(simulator).__name__}"}
    return HostsCollector(Job(simulator, source, spec, plan), pool or LocalPool(2), lag)


def copied(collected):
    """Return trajectories that the next collection does not overwrite, and the outcomes."""
    return [(type(c.trajectory)(*(a.copy() for a in c.trajectory)), c.finished) for c in collected]


def assert_same(one, other):
    """Require the same bits of what :func:`copied` returned."""
    assert len(one) == len(other)
    for (rows, finished), (expected, outcomes) in zip(one, other, strict=True):
        for name, column, right in zip(expected._fields, rows, expected, strict=True):
            assert column.dtype == right.dtype and column.shape == right.shape, name
            assert column.tobytes() == right.tobytes(), name
        assert finished == outcomes


def assert_same_state(one, other):
    """Require the same unfinished episodes of two collectors."""
    first, second = one.state_dict(), other.state_dict()
    assert first.metadata == second.metadata
    assert {n: r.tobytes() for n, r in first.records.items()} == {n: r.tobytes() for n, r in second.records.items()}
