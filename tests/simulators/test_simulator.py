"""The contract's base class: what a user's simulator gets without a word, and what is refused."""

import numpy as np
import pytest
from oracles.toy_simulators import Bandit

from longstride.errors import UserError
from longstride.simulators.simulator import Simulator, metrics_of, new_state
from longstride.simulators.validate import require_complete


def capabilities(simulator):
    return simulator.compiled, simulator.resumable, simulator.default_rollout_steps, simulator.expected_steps


def test_a_simulator_that_states_no_capability_is_compiled_resumable_and_played_by_whole_episodes():
    assert capabilities(Bandit()) == (True, True, 0, None)


def test_the_process_simulator_knows_the_steps_of_a_nominal_episode():
    loading = pytest.importorskip("longstride.simulators.loading")
    desk = loading.load_simulator("process").simulator
    assert capabilities(desk) == (True, True, 0, round(desk.sizes.expected_tasks))
    assert 50_000 < desk.expected_steps < desk.max_steps


def test_an_environment_is_stepped_by_python_in_short_rollouts():
    pytest.importorskip("gymnasium")
    adapter = pytest.importorskip("longstride.simulators.gym.adapter")
    assert capabilities(adapter.registered("CartPole-v1", {})) == (False, False, 0, None)


@pytest.mark.parametrize("missing", ["observation_size", "action_space", "max_steps", "state_dtype"])
def test_a_missing_attribute_is_named(missing):
    attributes = {name: value for name, value in vars(Bandit).items() if name != missing and name[:2] != "__"}
    with pytest.raises(UserError, match=f"Incomplete has no {missing}: set it in the class"):
        require_complete(type("Incomplete", (Simulator,), attributes)())


@pytest.mark.parametrize("missing", ["reset", "observe", "step"])
def test_a_missing_function_is_named(missing):
    attributes = {name: value for name, value in vars(Bandit).items() if name != missing and name[:2] != "__"}
    with pytest.raises(UserError, match=f"Incomplete defines no function {missing}"):
        require_complete(type("Incomplete", (Simulator,), attributes)())


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        (
            {"main_metric": "cahs"},
            "Bandit.main_metric names 'cahs', which is not a metric in metrics_dtype; did you mean cash?",
        ),
        ({"metric_units": {"profit": "EUR"}}, "Bandit.metric_units names 'profit', .* there are return, cash"),
        ({"metrics_dtype": np.dtype([("return", float)])}, "Bandit.metrics_dtype: every episode has its return"),
        ({"heuristics": {"trained": None}}, "Bandit.heuristics has 'trained', the name of a trained policy's row"),
        ({"bounds": {"untrained": None}}, "Bandit.bounds has 'untrained'"),
        ({"heuristics": {"x": None}, "bounds": {"x": None}}, "a heuristic and a bound of the name 'x'"),
        ({"references": {"optimum": "four"}}, r"Bandit.references\['optimum'\] must be a finite number, not 'four'"),
        ({"references": {"optimum": np.nan}}, "must be a finite number, not nan"),
        ({"labels": {"action": ["a"]}}, r"Bandit.labels\['action'\] must be 4 texts, not \['a'\]"),
        ({"labels": {"actions": ["a"]}}, "Bandit.labels has no 'actions'; did you mean action?"),
    ],
)
def test_what_only_an_evaluation_or_an_export_would_show_is_refused_before_a_training(attributes, sentence):
    shop = {"metrics_dtype": np.dtype([("cash", float)]), **attributes}
    with pytest.raises(UserError, match=sentence):
        require_complete(type("Bandit", (Bandit,), shop)())


@pytest.mark.filterwarnings("error")
def test_sizes_of_numpy_become_int_and_infinite_metrics_are_left_out():
    class Sized(Bandit):
        observation_size, max_steps = np.int64(Bandit.observation_size), np.uint8(20)
        metrics_dtype = np.dtype([(name, np.float64) for name in ("nan", "inf", "huge", "one")] + [("two", "f8", (2,))])

        def episode_metrics(state, parameters, metrics):
            metrics.inf, metrics.huge, metrics.one, metrics.two = np.inf, 1e200, 1.0, [1.0, -np.inf]

    simulator = Sized()
    require_complete(simulator)
    assert (type(simulator.observation_size), type(simulator.max_steps)) == (int, int)
    assert metrics_of(simulator, new_state(simulator)) == {"one": 1.0}
