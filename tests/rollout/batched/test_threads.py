"""What happens to the threads of a rollout where one of them fails; the turns are Python here."""

import threading

import numpy as np
import pytest
from helpers.batched import torch_forward
from helpers.toy_runs import KINDS, SEED, actor_weights, toy_model

from longstride.errors import SimulatorError
from longstride.rollout.batched import collector as collector_module
from longstride.rollout.batched.collector import BatchedCollector
from longstride.rollout.batched.turns import next_turn
from longstride.rollout.collector import RolloutPlan

THREADS, INSTANCES = 3, 12


@pytest.fixture
def collector(monkeypatch):
    monkeypatch.setattr(collector_module, "INSTANCES_OF_A_THREAD", 1)
    model = toy_model("shop")
    plan = RolloutPlan(SEED, INSTANCES, threads=THREADS)
    return BatchedCollector(KINDS["shop"][0](), model.spec, plan, torch_forward(model, INSTANCES))


def turns_that_fail_in(thread, seen):
    def play_turns(states, rng, parameters, actor_params, arrays, block, spins):
        me = int(block.thread[0])
        while (half := next_turn(arrays.turns, arrays.done, me, spins)) >= 0:
            seen.update((half, i) for i in range(*block.bounds[half]))
            if me == thread and half == 1:
                block.playing[0] = block.bounds[half, 0]
                raise ZeroDivisionError("division by zero")
            arrays.done[me, half, 0] = arrays.turns[0, half, 0]
        return half

    return play_turns


@pytest.mark.parametrize("thread", range(THREADS))
def test_an_exception_of_a_simulator_names_the_episode_and_ends_all_threads(collector, thread):
    """Of the second half, instances 6 to 11, each thread has two; the first episode is number 40."""
    seen = set()
    collector._play_turns = turns_that_fail_in(thread, seen)
    before = threading.active_count()
    with pytest.raises(SimulatorError, match=rf"^Shop, episode {46 + 2 * thread}: ZeroDivisionError: division by zero"):
        collector.collect(actor_weights(toy_model("shop")), 40, INSTANCES)
    assert threading.active_count() == before
    assert {i for half, i in seen if half == 0} == set(range(6))


def test_every_instance_is_in_one_block_of_one_half(collector):
    players = collector._players(np.zeros(1, np.float32))
    covered = [i for player in players for bounds in player.block.bounds for i in range(*bounds)]
    assert sorted(covered) == list(range(INSTANCES))
