"""No negative index in the kernels of processes: compiled, it would reach what lies before an array."""

import numpy as np
import pytest
from oracles.process_comparison import main
from oracles.process_play import BASE, service

from longstride.process.load import find_scenario
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import new_state


class _Watched(np.ndarray):
    """An array that refuses negative indices."""

    def __getitem__(self, index):
        return self.view(np.ndarray)[_admitted(index)]

    def __setitem__(self, index, value):
        self.view(np.ndarray)[_admitted(index)] = value


def _admitted(index):
    assert not isinstance(index, int | np.integer) or index >= 0, f"index {index}"
    return index


@pytest.fixture(autouse=True)
def watch(monkeypatch):
    read = np.record.__getattribute__

    def get(record, name):
        value = read(record, name)
        return value.view(_Watched) if type(value) is np.ndarray and value.ndim == 1 else value

    monkeypatch.setattr(np.record, "__getattribute__", get)


def test_a_negative_index_is_noticed():
    simulator = ProcessSimulator(find_scenario("loan_desk"))
    state = new_state(simulator)[0]
    for record in (state.queue_head, simulator.parameters.pair_mean):
        with pytest.raises(AssertionError, match="index -1"):
            record[-1]
        with pytest.raises(AssertionError, match="index -2"):
            record[np.int64(-2)] = 0


def test_generated_scenarios(capsys):
    main(30)
    assert "'scenarios': 30" in capsys.readouterr().out


def everything():
    """Return a process with delays, batches that policies begin, costs and due dates."""
    return parse_scenario(
        {
            **BASE,
            "horizon": {"value": 400.0},
            "activities": ["A", "B", "C"],
            "resources": ["r", "s"],
            "service": [
                service(a, r, "exponential", mean=m) for a, m in (("A", 0.6), ("B", 0.5), ("C", 1.0)) for r in "rs"
            ],
            "flow": {"seq": [{"task": "A"}, {"and": [{"task": "B"}, {"task": "C"}]}]},
            "delays": [{"activity": "B", "distribution": "exponential", "mean": 3.0}],
            "batches": [{"activity": "C", "size": 3, "longest": 5.0, "start": "policy"}],
            "aims": {
                "due": {"quantiles": [2.0, 9.0]},
                "costs": {"everyone": 30.0},
                "objective": {"cost": 1.0, "tardiness": 5.0},
            },
        },
        "test",
    )


@pytest.mark.parametrize("made", [lambda: find_scenario("loan_desk"), everything])
def test_what_policies_and_rules_read(made):
    simulator, rng = ProcessSimulator(made()), np.random.default_rng(1)
    state, p = new_state(simulator)[0], simulator.parameters
    values, steps = simulator.action_space.n, 0
    simulator.reset(state, p, rng)
    while steps < 250 and not simulator.truncated(state, p):
        mask, ids = np.ones(values, bool), np.zeros(values, np.int32)
        simulator.observe(state, p, np.zeros(simulator.observation_size, np.float32))
        simulator.action_mask(state, p, mask)
        simulator.action_features(state, p, mask, np.zeros((values, simulator.action_feature_size), np.float32))
        simulator.summarise(state, p, np.zeros(simulator.summary_size, np.float32))
        simulator.describe_actions(state, p, ids, np.zeros((values, simulator.description_size), np.float32))
        choices = [rule(state, p, mask, rng) for rule in simulator.heuristics.values()]
        simulator.step(state, p, int(rng.choice([*choices, values - 1])), rng)
        steps += 1
    assert steps == 250
