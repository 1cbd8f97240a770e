"""The batched collector against the compiled loop: the same steps from the same seeds."""

import json
import pickle

import numpy as np
import pytest
from helpers.batched import assert_same_but_for_rounding, batched_collector, bits, toy_batched
from helpers.memory_rollouts import copied, shop_collector, shop_episodes, shop_model
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import KINDS, actor_weights, toy_episodes, toy_model, toy_update, toy_updater
from oracles.toy_simulators import NAN_OBSERVATION, NAN_REWARD, NO_ACTION, FaultParameters, Faulty, Shop

from longstride.errors import PolicyNotFiniteError, SimulatorError, UserError
from longstride.policies.families.mingru import network as mingru
from longstride.rollout.batched import collector as collector_module
from longstride.rollout.batched import threads as threads_module
from longstride.rollout.collector import CollectorState, params_to_play

ROUNDS, STEPS, INSTANCES = 3, 150, 5


@pytest.mark.parametrize("kind", ["shop", "choices", "squashed"])
def test_whole_episodes_are_those_of_the_compiled_loop(kind):
    """Masks, action features, episodes that end in all ways; several choices; real numbers."""
    model = toy_model(kind)
    collected = toy_batched(kind).collect(actor_weights(model), 3, 8)[0]
    assert_same_but_for_rounding(collected, toy_episodes(kind, model, 8, first=3))


@pytest.fixture(scope="module")
def rounds():
    """Rollouts of a policy with memory, one after another, by both collectors."""
    model, loop = shop_model(), shop_collector(INSTANCES, STEPS)
    batched = batched_collector(Shop(), model, INSTANCES, STEPS)
    return [
        tuple(copied(each.collect(actor_weights(model), 0, INSTANCES)[0]) for each in (batched, loop))
        for _ in range(ROUNDS)
    ]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_rollouts_of_a_policy_with_memory_are_those_of_the_compiled_loop(rounds, number):
    """Episodes continue across rollouts, chunks begin in the middle of one, and cuts keep their observations."""
    batched, loop = rounds[number]
    assert_same_but_for_rounding(batched, loop)
    assert any(len(each.trajectory.cut_observations) for each in batched)
    assert any(each.trajectory.states[1].any() for each in batched)


def test_whole_episodes_of_a_policy_with_memory_are_those_of_the_compiled_loop():
    model = shop_model()
    collector = batched_collector(Shop(), model, INSTANCES)
    loop = shop_episodes(INSTANCES).collect(actor_weights(model), 0, INSTANCES)[0]
    for _ in range(2):  # the states of the first rollout are not those of the second
        assert_same_but_for_rounding(collector.collect(actor_weights(model), 0, INSTANCES)[0], loop)


def saved(collector):
    """Return a collector's state after a checkpoint."""
    state = collector.state_dict()
    metadata = json.loads(json.dumps(state.metadata))
    return CollectorState({name: record.copy() for name, record in state.records.items()}, metadata)


def test_a_resumed_rollout_has_the_same_bits_and_the_compiled_loop_can_continue_it():
    model = shop_model()
    weights, collector = actor_weights(model), batched_collector(Shop(), model, INSTANCES, STEPS)
    collector.collect(weights, 0, INSTANCES)
    state = saved(collector)
    expected = copied(collector.collect(weights, 0, INSTANCES)[0])
    collector.load_state_dict(state)
    assert bits(collector.collect(weights, 0, INSTANCES)[0]) == bits(expected)
    other, loop = batched_collector(Shop(), model, INSTANCES, STEPS), shop_collector(INSTANCES, STEPS)
    for each in (other, loop):
        each.load_state_dict(state)
    assert bits(other.collect(weights, 0, INSTANCES)[0]) == bits(expected)
    assert_same_but_for_rounding(expected, loop.collect(weights, 0, INSTANCES)[0])


def test_records_are_those_of_their_time_whenever_they_are_read():
    """They are made where they are read; a rollout later they are the same, and another process gets arrays."""
    model = shop_model()
    weights, collector = actor_weights(model), batched_collector(Shop(), model, INSTANCES, STEPS)
    collector.collect(weights, 0, INSTANCES)
    early, late = saved(collector), collector.state_dict()
    collector.collect(weights, 0, INSTANCES)
    sent = pickle.loads(pickle.dumps(late.records))
    assert [*early.records] == [*late.records] == [*sent]
    for name, record in early.records.items():
        assert record.tobytes() == late.records[name].tobytes() == sent[name].tobytes()
    assert any(record.tobytes() != collector.state_dict().records[name].tobytes() for name, record in sent.items())


def test_a_record_of_another_simulator_is_refused():
    collector = batched_collector(Shop(), shop_model(), INSTANCES, STEPS)
    state = saved(collector)
    state.records["rollout.2.state"] = state.records["rollout.2.state"][:-1]
    with pytest.raises(UserError, match="The state of an unfinished episode in the checkpoint has"):
        collector.load_state_dict(state)


@pytest.mark.parametrize("spins", [0, 20_000])
def test_threads_change_no_bit(monkeypatch, spins):
    """With no look for the next turn, helpers sleep before each."""
    model = shop_model()
    alone = batched_collector(Shop(), model, 7, 60)
    monkeypatch.setattr(collector_module, "INSTANCES_OF_A_THREAD", 1)
    monkeypatch.setattr(threads_module, "_SPINS", spins)
    together = batched_collector(Shop(), model, 7, 60, threads=3)
    assert (alone.threads, together.threads) == (1, 3)
    for _ in range(2):
        a, b = (each.collect(actor_weights(model), 0, 7)[0] for each in (together, alone))
        assert bits(a) == bits(b)


def test_an_instance_alone_makes_the_steps_that_it_makes_among_others():
    model = toy_model("shop")
    collector = toy_batched("shop")
    together = bits(collector.collect(actor_weights(model), 0, 8)[0][:1])
    assert bits(collector.collect(actor_weights(model), 0, 1)[0]) == together


def test_parameters_are_copied_only_where_compiled_code_reads_them():
    model = shop_model()
    actor = model.flat[: model.layout.actor_size].numpy()
    assert params_to_play(batched_collector(Shop(), model, INSTANCES, STEPS), actor) is actor
    aligned = params_to_play(shop_collector(INSTANCES, STEPS), actor)
    assert np.array_equal(aligned, actor)
    assert not np.shares_memory(aligned, actor)


def test_captured_forward_passes_have_the_same_bits(monkeypatch):
    """Two graphs, one for each half, replayed in every turn; the states lie where they lay."""
    monkeypatch.setattr(mingru, "_step_by_step", lambda tensor: False)  # as on a GPU, in operations of torch
    model, graphs = shop_model(), []

    def new_graphs():
        graphs.append(RecordedGraphs())
        return graphs[-1]

    plain = batched_collector(Shop(), model, INSTANCES, STEPS)
    captured = batched_collector(Shop(), model, INSTANCES, STEPS, new_graphs=new_graphs)
    for _ in range(2):
        a, b = (each.collect(actor_weights(model), 0, INSTANCES)[0] for each in (plain, captured))
        assert bits(a) == bits(b)
    assert [(each.captured, each.replays) for each in graphs] == [(1, 2 * STEPS)] * 2


def test_a_capture_that_fails_is_said_and_replaced():
    class NoGraphs:
        def capture(self, function):
            raise RuntimeError("CUDA error: operation not permitted.\nmore")

    model = toy_model("shop")
    collector = batched_collector(Shop(), model, 8, new_graphs=NoGraphs)
    expected = bits(toy_batched("shop").collect(actor_weights(model), 0, 8)[0])
    assert bits(collector.collect(actor_weights(model), 0, 8)[0]) == expected
    assert collector.forward.note == (
        "The policy's forward pass is not captured, as that failed: CUDA error: operation not permitted."
    )


def test_shorter_rollouts_fill_the_first_rows():
    model, loop = shop_model(), shop_collector(INSTANCES, STEPS)
    batched = batched_collector(Shop(), model, INSTANCES, STEPS)
    for steps in (40, 130):
        for each in (batched, loop):
            each.resize(steps)
        a, b = (each.collect(actor_weights(model), 0, INSTANCES)[0] for each in (batched, loop))
        assert all(each.trajectory.steps == steps for each in a)
        assert_same_but_for_rounding(a, b)


def test_old_episodes_are_given_up_as_in_the_compiled_loop():
    """The choices' episodes have 200 steps and are never terminated."""
    model, simulator = toy_model("choices"), KINDS["choices"][0]()
    batched = batched_collector(simulator, model, 4, 60, restart_after=50)
    numbers = []
    for _ in range(3):
        batched.collect(actor_weights(model), 0, 4)
        numbers.append(batched.instances.numbers.tolist())
    assert numbers == [[0, 0, 0, 0], [0, 1, 1, 1], [0, 2, 2, 2]], "of 16 instances one plays on"


@pytest.mark.parametrize(
    ("fault", "step", "sentence"),
    [
        (NAN_OBSERVATION, 4, "observe wrote a NaN"),
        (NAN_OBSERVATION, 0, "observe wrote a NaN"),
        (NAN_OBSERVATION, 12, "observe wrote a NaN"),
        (NO_ACTION, 5, "allowed no action"),
        (NAN_REWARD, 7, "NaN or infinite"),
    ],
)
def test_a_fault_is_named_with_episode_and_step(fault, step, sentence):
    collector = toy_batched("faulty")
    collector.simulator.parameters = FaultParameters(fault, step)
    with pytest.raises(SimulatorError, match=rf"Faulty, episode 42, step {step}: .*{sentence}"):
        collector.collect(actor_weights(toy_model("faulty")), 42, 1)


def test_a_policy_of_nans_is_not_blamed_on_the_simulator():
    collector = toy_batched("faulty")
    collector.simulator.parameters = Faulty.parameters
    weights = actor_weights(toy_model("faulty")).copy()
    weights[-1] = np.nan
    with pytest.raises(PolicyNotFiniteError, match="Faulty, episode 0, step 0: the policy's own outputs were NaN"):
        collector.collect(weights, 0, 3)


def test_an_update_learns_from_a_batched_rollout():
    model = toy_model("shop")
    collected = copied(toy_batched("shop").collect(actor_weights(model), 0, 8)[0])
    updater = toy_updater(model)
    report = toy_update(updater, collected)
    assert abs(report.losses["initial_ratio_error"]) < 1e-5
    assert report.optimizer_steps > 0


def test_a_failed_collection_can_be_repeated_by_the_compiled_loop():
    model = shop_model()
    collector = batched_collector(Shop(), model, 2, 45)
    collector.collect(actor_weights(model), 0, 2)
    first, second = collector.replayed(saved(collector), 0, 2)
    assert (first.suffix, second.suffix, first.steps) == (" of instance 0", " of instance 1", 45)
    assert first.begin.number == collector.instances.numbers[0]
    whole = toy_batched("shop").replayed(CollectorState({}, []), 5, 2)
    assert [(each.suffix, each.steps, each.begin.number, each.begin.age) for each in whole] == [
        ("", None, 5, -1),
        ("", None, 6, -1),
    ]
