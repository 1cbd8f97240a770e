"""The simulation of hosts on paper against closed forms, where one resource alone takes time."""

import pytest

from benchmarks.hosts_on_paper import Constants, Rollout, binding, play_seconds

NOTHING = {"host_seconds": 0.0, "store_seconds": 0.0, "received_bytes": 0.0, "sent_bytes": 0.0, "call_seconds": 0.0}
ROLLOUT = Rollout(decisions=1_000, tasks=100)


def constants(**changes):
    return Constants(**{**NOTHING, "host_cores": 4, "learner_threads": 3, "link": 1e6, **changes})


@pytest.mark.parametrize(("hosts", "rounds"), [(1, 25), (2, 13), (25, 1), (64, 1)])
def test_hosts_alone_take_whole_rounds_of_tasks(hosts, rounds):
    seconds, busy = play_seconds(ROLLOUT, hosts, constants(host_seconds=0.01))
    assert seconds == pytest.approx(rounds * 10 * 0.01)
    assert busy["hosts"] == pytest.approx(1_000 * 0.01 / (4 * hosts))


def test_the_wire_alone_takes_its_bytes_one_after_another():
    seconds, busy = play_seconds(ROLLOUT, 64, constants(received_bytes=500.0))
    assert seconds == pytest.approx(1_000 * 500.0 / 1e6) == busy["wire"]


def test_threads_of_the_learner_share_the_storing():
    assert play_seconds(ROLLOUT, 64, constants(store_seconds=1e-3))[0] == pytest.approx(34 * 10 * 1e-3)


def test_more_hosts_are_never_slower_and_none_beats_the_busiest_resource():
    of = constants(host_seconds=1e-4, store_seconds=2e-5, received_bytes=40.0, call_seconds=1e-4)
    seconds = []
    for hosts in (1, 2, 4, 8, 16):
        play, busy = play_seconds(ROLLOUT, hosts, of)
        assert play >= max(busy.values())
        seconds.append(play)
    assert seconds == sorted(seconds, reverse=True)


def test_what_binds_is_named():
    busy = {"hosts": 1.0, "wire": 2.0}
    assert binding(2.1, 2.0, busy) == "wire" and binding(2.1, 3.0, busy) == "update"
