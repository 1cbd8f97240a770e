"""A process whose weight changes: in each window it plays, shows and rewards what the process of that weight does."""

import numpy as np
import pytest

from longstride.process.front.pair import Pair
from longstride.process.scenario_file import parse_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.simulator import compile_functions, new_state
from research.processes import costs
from research.processes.conditioned_process import Conditioned

PAIR = Pair(("cost_per_case", "mean_cycle_time"), ("cost", "cycle_time"))
WEIGHTS, CENTRE, WINDOWS = [0.5, 8.0], 2.0, 4
REWARDS = [(-0.25, 3.0), (-1.0, 0.5)]
STEPS = 120


@pytest.mark.slow
def test_each_window_is_that_of_the_process_of_its_weight():
    scenario = parse_scenario({**costs.scenario(0.3, 14.0), "horizon": {"value": 150.0}}, "two servers")
    seen = Conditioned(scenario, PAIR, WEIGHTS, np.array([[-1.0], [1.0]]), CENTRE, REWARDS, WINDOWS)
    alone = [ProcessSimulator(PAIR.on(scenario, weight)) for weight in WEIGHTS]
    all_of = [compile_functions(simulator) for simulator in (seen, *alone)]
    simulators, draw, kinds = [seen, *alone], np.random.default_rng(3), set()
    states = [new_state(simulator)[0] for simulator in simulators]
    for functions, state, simulator in zip(all_of, states, simulators, strict=True):
        functions.reset(state, simulator.parameters, np.random.default_rng(1))
    logits = [simulator.initial_logits for simulator in simulators]
    for _ in range(STEPS):
        kind, before = int(states[0].which), float(states[0].time)
        kinds.add((int(before // (150.0 / WINDOWS)), kind))
        views = []
        for functions, state, simulator in zip(all_of, states, simulators, strict=True):
            mask, row = np.ones(3, np.bool_), np.zeros(simulator.observation_size, np.float32)
            features = np.zeros((3, simulator.action_feature_size), np.float32)
            functions.observe(state, simulator.parameters, row)
            functions.action_mask(state, simulator.parameters, mask)
            functions.action_features(state, simulator.parameters, mask, features)
            views.append((row, mask, features))
        (row, mask, features), (row_alone, mask_alone, features_alone) = views[0], views[1 + kind]
        np.testing.assert_array_equal(row, np.append(row_alone, 2.0 * kind - 1.0).astype(np.float32))
        np.testing.assert_array_equal(mask, mask_alone)
        scores, alone_scores = (
            f @ s.initial_feature_weights + own
            for f, s, own in ((features, seen, logits[0]), (features_alone, alone[kind], logits[1 + kind]))
        )
        np.testing.assert_allclose(scores[mask], alone_scores[mask], rtol=1e-5)
        action = int(draw.choice(np.flatnonzero(mask)))
        got = [
            functions.step(state, simulator.parameters, action, draw)[0]
            for functions, state, simulator in zip(all_of, states, simulators, strict=True)
        ]
        rate, factor = REWARDS[kind]
        assert got[0] == pytest.approx((got[1 + kind] - rate * (states[0].time - before)) * factor)
        if any(f.truncated(s, sim.parameters) for f, s, sim in zip(all_of, states, simulators, strict=True)):
            break
    assert len(dict(kinds)) == len(kinds), "one weight in each window"
    assert {kind for _, kind in kinds} == {0, 1}, "both weights were drawn"
