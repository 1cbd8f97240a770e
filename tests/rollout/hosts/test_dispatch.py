"""Tasks and hosts without either: which host plays what where hosts are lost, late or full, and which error counts."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pydantic")


from longstride.errors import PolicyNotFiniteError, SimulatorError, UserError
from longstride.rollout.hosts import dispatch
from longstride.rollout.hosts.dispatch import Dispatcher, most_tasks
from longstride.rollout.hosts.player import Answer, Fault
from longstride.rollout.hosts.pool import Host, LostError
from longstride.rollout.hosts.wire import Played, Task

RECORD = np.zeros(10, np.uint8)


def tasks(count):
    return [Task(2 * k, 2, 0, 50) for k in range(count)]


def played(task):
    return [Played({}, (), RECORD, {"instance": task.first + k}) for k in range(task.instances)]


class PaperPool:
    """Hosts that answer at once, in the order of their tasks, but for those that are lost or stuck."""

    def __init__(self, *threads):
        self.there = [Host(number, f"host {number}", count) for number, count in enumerate(threads)]
        self.stuck, self.lost, self.faults = set(), set(), {}
        self.given, self.most = [], 0
        self._open = {}

    def hosts(self):
        return [host for host in self.there if host.key not in self.lost]

    def submit(self, host, task, parameters):
        receipt = len(self.given)
        self.given.append((host.key, task.first))
        self._open[receipt] = host, task
        self.most = max(self.most, len(self._open))
        return receipt

    def wait(self, receipts, seconds):
        ready = [r for r in receipts if self._open[r][0].key not in self.stuck]
        time.sleep(0 if ready else seconds)
        return ready[:1]

    def fetch(self, receipt):
        host, task = self._open.pop(receipt)
        if host.key in self.lost:
            raise LostError
        if task.first in self.faults:
            return Answer([], Fault(self.faults[task.first], f"instance {task.first} failed", task.first), 0.0)
        return Answer(played(task), None, 0.0)

    def give_up(self, host):
        self.there = [each for each in self.there if each.key != host.key]
        self._open = {r: each for r, each in self._open.items() if each[0].key != host.key}


def play(pool, count, store=None, **further):
    dispatcher = Dispatcher(pool, 2, **further)
    results, traffic = dispatcher.play(tasks(count), None, store or (lambda task, rows: rows[0].metadata["instance"]))
    assert results == list(range(0, 2 * count, 2)), "in the order of the instances"
    return traffic


def test_hosts_share_the_tasks_by_their_threads():
    pool = PaperPool(1, 3)
    traffic = play(pool, 40)
    assert traffic.hosts == 2 and traffic.played_again == 0 and not traffic.lost
    assert len(pool.given) == 40
    assert pool.most <= sum(map(most_tasks, pool.there)) == 2 + 4 == traffic.most_waiting
    assert traffic.received_bytes == 80 * (len(RECORD) + 200)


def test_answers_wait_at_the_hosts_while_nothing_stores_them():
    """Storing stops; so many answers are taken that every storing thread has one and one waits, no more."""
    pool, go_on, taken = PaperPool(2), threading.Event(), []

    def store(task, rows):
        taken.append(task.first)
        go_on.wait(10)
        return task.first

    thread = threading.Thread(target=play, args=(pool, 30, store))
    thread.start()
    time.sleep(0.3)
    assert 4 <= len(pool.given) <= 4 + most_tasks(pool.there[0]) < 30
    go_on.set()
    thread.join(10)
    assert not thread.is_alive() and sorted(taken) == list(range(0, 60, 2))


def test_tasks_of_a_lost_host_are_played_elsewhere_first():
    pool = PaperPool(2, 2)
    pool.lost = {1}
    pool.hosts = lambda: pool.there  # it is not known yet
    traffic = play(pool, 12)
    assert traffic.lost == ["host 1"] and traffic.played_again == 3 and traffic.hosts == 1
    again = [first for key, first in pool.given if key == 0]
    assert sorted(again) == list(range(0, 24, 2))


def test_late_tasks_are_given_to_an_idle_host_as_well(monkeypatch):
    monkeypatch.setattr(dispatch, "_SOON", 0.02)
    monkeypatch.setattr(dispatch, "_POLL", 0.01)
    pool = PaperPool(1, 1)
    pool.stuck = {0}
    traffic = play(pool, 8)
    assert traffic.played_again == most_tasks(pool.there[0]) == 2 and not traffic.lost


def test_a_stuck_host_is_passed_over_in_the_next_rollout(monkeypatch):
    monkeypatch.setattr(dispatch, "_SOON", 0.02)
    monkeypatch.setattr(dispatch, "_POLL", 0.01)
    pool = PaperPool(1, 1)
    pool.stuck = {0}
    dispatcher = Dispatcher(pool, 1)
    store = lambda task, rows: task.first  # noqa: E731
    for _ in range(2):
        assert dispatcher.play(tasks(6), None, store)[0] == [0, 2, 4, 6, 8, 10]
    assert sum(key == 0 for key, _ in pool.given) == 2


def test_the_error_of_the_first_instance_counts():
    pool = PaperPool(4)
    pool.faults = {6: "SimulatorError", 2: "PolicyNotFiniteError", 8: "SimulatorError"}
    with pytest.raises(PolicyNotFiniteError, match="instance 2 failed"):
        play(pool, 10)
    pool.faults = {6: "SimulatorError"}
    with pytest.raises(SimulatorError, match="instance 6 failed"):
        play(pool, 10)


def test_all_hosts_lost_is_one_sentence():
    pool = PaperPool(1)
    pool.lost = {0}
    pool.hosts = lambda: pool.there
    with pytest.raises(UserError, match=r"No host is left to play on \(host 0\); finished iterations are saved"):
        play(pool, 3, patience=0.05)


def test_a_host_that_comes_back_plays_on():
    pool = PaperPool(1)
    pool.lost = {0}
    calls = SimpleNamespace(count=0)

    def hosts():
        calls.count += 1
        return pool.there if calls.count < 2 else [Host(1, "host 1", 1)]

    pool.hosts = hosts
    assert play(pool, 3).lost == ["host 0"]
