"""Collection on a Ray cluster of two nodes: equal to local play to the bit, whatever happens to its hosts."""

import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pydantic")

from helpers.player_pools import assert_same, assert_same_state, copied, hosts_collector, local_collector
from helpers.toy_runs import SEED, actor_weights, toy_model

pytest.importorskip("ray")

from longstride.errors import UserError
from longstride.rollout.collector import RolloutPlan
from longstride.rollout.hosts import ray_pool
from longstride.rollout.hosts.dispatch import most_tasks
from longstride.rollout.hosts.ray_cluster import import_ray
from longstride.rollout.hosts.ray_pool import RayPool

TESTS = Path(__file__).resolve().parents[2]
INSTANCES, STEPS = 12, 50
PLAN = RolloutPlan(SEED, INSTANCES, STEPS, 2)
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def cluster():
    ray = import_ray()
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent / "src" / "core"), str(TESTS)])
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    cluster.add_node(**NODE)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


class Interfering(RayPool):
    """Does something before the third answer of a rollout is taken, with half of the tasks not played."""

    def __init__(self, address):
        super().__init__(address, 2)
        self.action, self.answers = None, 0

    def fetch(self, receipt):
        self.answers += 1
        if self.answers == 3 and self.action is not None:
            self.action()
            self.action = None
        return super().fetch(receipt)


@pytest.fixture(scope="module")
def pool(cluster):
    return Interfering(cluster.address)


@pytest.fixture(scope="module")
def play(pool):
    """Collect a rollout on the hosts and locally, the same ones after each other; return the figures."""
    local, hosts = local_collector("shop", PLAN), hosts_collector("shop", PLAN, pool=pool)
    weights = actor_weights(toy_model("shop"))
    lines = []

    def collect(action=None):
        pool.action, pool.answers = action, 0
        expected = copied(local.collect(weights, 0, INSTANCES)[0])
        assert_same(copied(hosts.collect(weights, 0, INSTANCES)[0]), expected)
        assert_same_state(local, hosts)
        lines[:] = hosts.take_lines()
        return hosts.figures()["hosts"]

    hosts.compile(weights)
    collect.lines = lines
    yield collect
    hosts.close()


def test_hosts_play_what_local_play_gives(play, pool):
    figures = play()
    assert figures["lost"] == 0 and figures["count"] == 2
    assert figures["most_waiting"] <= sum(map(most_tasks, pool.hosts()))


def test_an_actor_is_killed_in_the_middle(play, pool):
    import ray

    actor = next(iter(pool._actors.values()))
    figures = play(lambda: ray.kill(actor.handle))
    assert figures["lost"] == 1 and figures["tasks_played_again"] >= 1
    assert any("lost" in line for line in play.lines)


def test_a_host_is_slow(play, pool):
    import ray

    actor = next(iter(pool._actors.values()))
    pid = ray.get(actor.handle.process.remote())
    try:
        figures = play(lambda: os.kill(pid, signal.SIGSTOP))
    finally:
        os.kill(pid, signal.SIGCONT)
    assert figures["lost"] == 0 and figures["tasks_played_again"] >= 1


def test_other_code_is_refused(cluster, monkeypatch):
    here = ray_pool.code_here()
    monkeypatch.setattr(ray_pool, "code_here", lambda: here | {"Longstride": "9.9 (0123)"})
    hosts = hosts_collector("shop", PLAN, pool=RayPool(cluster.address, 2))
    with pytest.raises(UserError, match=r"has Longstride .*, this machine 9\.9 \(0123\); install the same version"):
        hosts.compile(actor_weights(toy_model("shop")))
    hosts.close()


@pytest.mark.slow
def test_a_node_is_lost(play, pool, cluster):
    """Its player and its raylet end at once, as those of a machine do that loses power."""
    import ray

    node = cluster.list_all_nodes()[1]
    [actor] = [actor for place, actor in pool._actors.items() if place.node == node.node_id]
    pid = ray.get(actor.handle.process.remote())

    def lose():
        os.kill(pid, signal.SIGKILL)
        cluster.remove_node(node, allow_graceful=False)

    lost, deadline = play(lose)["lost"], time.monotonic() + 40
    while not lost and time.monotonic() < deadline:  # until Ray notices, others play what it holds
        time.sleep(0.5)
        lost = play()["lost"]
    assert lost == 1
    assert play()["count"] == 1
