"""The start of a policy: each prior plays like its heuristic, and the short simulation finds the one to begin with."""

import io
import json
from functools import partial

import numpy as np
import pytest
from oracles.process_play import office, rework, scenario, service
from rich.console import Console

from longstride.config import Config
from longstride.errors import UserError
from longstride.policies.compiled.forward import align_params
from longstride.policies.make_spec import spec_for
from longstride.process import choose_prior as choosing
from longstride.process.choose_prior import choose_prior, simulate
from longstride.process.hooks import with_hooks
from longstride.process.kernel import heuristics, policy_prior
from longstride.process.kernel.pairs.action_features import action_features, oldest_case
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.seeding import stream
from longstride.settings import Settings
from longstride.simulators.hooks import Trial
from longstride.simulators.loading import LoadedSimulator, from_source
from longstride.simulators.simulator import new_state
from longstride.training.assembly.choose_options import play_untrained, with_choice
from longstride.training.assembly.components import new_model
from longstride.training.assembly.last_check import sentences
from longstride.training.assembly.run import build_run
from longstride.training.assembly.setup import set_up
from longstride.training.evaluation.compiled import CompiledPlayer
from longstride.training.evaluation.evaluate import Evaluation


def sparse():
    """Return a desk with little work: the expert comes for an hour a week, and the rule waits for the expert.

    Until then 84 hours pass in the mean, where the other person takes 60.
    """
    return scenario(
        resources=["expert", "novice"],
        arrivals={"process": "poisson", "rate": 0.003},
        horizon={"value": 8_000.0},
        service=[service("A", "expert", "constant", mean=0.9), service("A", "novice", "constant", mean=60.0)],
        working_hours={"expert": [{"days": ["Monday"], "from": "09:00", "to": "10:00"}]},
    )


@pytest.fixture(autouse=True)
def few_episodes(monkeypatch):
    monkeypatch.setattr(choosing, "EPISODES", 5)


def habits():
    """Return a desk whose log shows that R does nearly everything, and S, who is slower, nearly nothing."""
    pairs = (("R", 0.9, 95), ("S", 3.0, 2))
    services = [service("A", name, "exponential", mean=mean, observations=n) for name, mean, n in pairs]
    return scenario(resources=["R", "S"], service=services, horizon={"value": 300.0})


def loaded(made, prior="rule"):
    simulator = with_hooks(made, prior)
    return LoadedSimulator(simulator, simulator.hooks.source(simulator))


TRIAL = Trial(None, False, partial(play_untrained, Config(simulation_threads=1)), None)


def best_start(made):
    return simulate(with_hooks(made), TRIAL)


def chosen(made, policy, steps, seed=5):
    """Yield states, masks and the action that a policy's preferences choose, while a random policy plays."""
    simulator = ProcessSimulator(made, policy)
    state, rng = new_state(simulator)[0], np.random.default_rng(seed)
    p, pairs = simulator.parameters, len(simulator.parameters.pair_mean)
    simulator.reset(state, p, stream(0, "test", seed))
    for _ in range(steps):
        mask, features = np.zeros(pairs + 1, np.bool_), np.zeros((pairs + 1, simulator.action_feature_size), np.float32)
        mask[pairs] = True
        simulator.action_mask(state, p, mask)
        action_features(state, p, mask, features)
        scores = simulator.initial_logits + features @ simulator.initial_feature_weights
        yield state, p, mask, int(np.where(mask, scores, -np.inf).argmax())
        simulator.step(state, p, int(rng.choice(np.flatnonzero(mask))), rng)
        if simulator.truncated(state, p):
            return


@pytest.mark.parametrize("made", [office, rework])
def test_the_priors_choose_what_their_heuristics_choose(made):
    decisions = 0
    for state, p, mask, action in chosen(made(), "fifo", 150):
        if mask[:-1].any():
            oldest = heuristics.oldest_waiting(state, p, mask)
            assert oldest[p.pair_activity[action]] == oldest.min() == oldest_case(state, p, mask)
            decisions += 1
    assert decisions > 60
    for _, p, mask, action in chosen(made(), "spt", 80):
        if mask[:-1].any():
            assert p.pair_mean[action] == p.pair_mean[mask[:-1]].min()


def test_habits_come_before_speed():
    made = habits()
    for _, p, mask, action in chosen(made, "logged", 60):
        if mask[:-1].any():
            assert p.pair_habit[action] == p.pair_habit[mask[:-1]].max()


def promised(objective=None, second=(), rate=0.6):
    """Return two classes with due dates at one desk; gold counts twice, and needs longer; perhaps a second activity."""
    activities = ["A · gold", "A · plain"]
    flows = {
        name: {"seq": [{"task": task} for task in (a, *second)]}
        for name, a in zip(("gold", "plain"), activities, strict=True)
    }
    services = [service(a, "R", "exponential", mean=mean) for a, mean in zip(activities, (2.0, 1.0), strict=True)]
    return scenario(
        time_unit="abstract",
        resources=["R", *(["S"] if second else [])],
        activities=[*activities, *second],
        arrivals={"process": "poisson", "rate": rate},
        horizon={"value": 400.0},
        service=[*services, *(service(a, who, "exponential", mean=1.5) for a in second for who in "RS")],
        flow={"classes": [{"name": name, "p": 0.5, "flow": flow} for name, flow in flows.items()]},
        aims={
            "objective": objective or {"tardiness": 3.0, "cycle_time": 1.0},
            "class_weights": {"gold": 2.0},
            "due": {"by_class": {"gold": {"after": 6.0}, "plain": {"after": 1.5}}},
        },
    )


def test_the_urgency_of_a_case_is_its_apparent_tardiness_cost():
    compared, rng = set(), np.random.default_rng(1)
    for state, p, mask, action in chosen(promised(), "atc", 400):
        urgencies = {}
        for pair in np.flatnonzero(mask[:-1]):
            case = state.slot_case[state.queue_head[p.pair_activity[pair]]]
            gold = p.pair_mean[pair] == 2.0
            spare = max(state.arrival_time[case] + (6.0 if gold else 1.5) - state.time - p.pair_mean[pair], 0.0) / 1.5
            urgencies[pair] = (2.0 if gold else 1.0) / p.pair_mean[pair] * (1.0 + 3.0 * np.exp(-spare)) / 4.0
            assert np.exp(heuristics.urgency(state, p, pair)) == pytest.approx(1.5 * urgencies[pair])
        if len(urgencies) == 2:
            # of equal ones, such as two late cases, either may go first
            assert urgencies[action] == pytest.approx(max(urgencies.values()), rel=1e-6)
            if abs(urgencies[0] - urgencies[1]) > 1e-9:
                assert heuristics.apparent_tardiness_cost(state, p, mask, rng) == action
                compared.add(action)
    assert compared == {0, 1}


@pytest.mark.parametrize("second", [(), ("B",)])
@pytest.mark.parametrize("objective", [{"late": 1.0}, {"late": 5.0, "tardiness": 2.0, "cycle_time": 1.0}])
def test_a_case_that_is_late_anyway_counts_for_tardiness_alone(objective, second):
    """Times ahead are counted by hand: gold needs 2 and plain 1 at A, and both 1.5 at B if there is one."""
    waits, rng = {"late": 0, "saved": 0}, np.random.default_rng(2)
    weights = {"tardiness": 0.0, "cycle_time": 0.0, **objective}
    for state, p, mask, _ in chosen(promised(objective, second, 0.25), "atc", 400):
        late = (1.0 if len(objective) == 1 else 5.0) / p.service_unit
        total, urgencies, savable = late + weights["tardiness"] + weights["cycle_time"], {}, {}
        for pair in np.flatnonzero(mask[:-1]):
            a = p.pair_activity[pair]
            case = state.slot_case[state.queue_head[a]]
            gold = state.case_class[case] == 0
            ahead = (2.0, 1.0, 1.5)[a] + (1.5 if second and a < 2 else 0.0)
            spare = (state.arrival_time[case] + (6.0 if gold else 1.5) - state.time - ahead) / p.service_unit
            soon = np.exp(-max(spare, 0.0))
            delay = (
                weights["cycle_time"] + weights["tardiness"] * soon + late * (soon if spare >= 0.0 else np.exp(-30.0))
            )
            urgencies[pair] = (2.0 if gold else 1.0) * delay / total / (2.0, 1.0, 1.5)[a]
            savable[pair] = spare >= 0.0
            assert np.exp(heuristics.urgency(state, p, pair)) == pytest.approx(urgencies[pair] * p.service_unit)
            waits["saved" if savable[pair] else "late"] += 1
        if len(urgencies) > 1:
            best = heuristics.apparent_tardiness_cost(state, p, mask, rng)
            assert urgencies[best] == pytest.approx(max(urgencies.values()), rel=1e-9)
            assert savable[best] or len(objective) > 1 or not any(savable.values())
    assert min(waits.values()) > 10


def test_only_objectives_with_due_dates_begin_with_the_rule_for_them():
    assert not {"atc"} & ProcessSimulator(office()).heuristics.keys()
    asked = {}

    def play(players, episodes, streams):
        asked.update(players=list(players), episodes=episodes)
        better = {"atc": 0.5}
        return {name: [{"objective": better.get(name, 1.0) + 0.01 * k} for k in range(3)] for name in players}

    for describes in (False, True):
        prior, _ = simulate(with_hooks(promised()), Trial(None, describes, play, None))
        assert (prior == "atc") is ("atc" in asked["players"]) is not describes
    simulate(with_hooks(office()), Trial(None, False, play, None))
    assert (asked["players"], asked["episodes"]) == (["rule", "fifo", "spt"], 5)
    with pytest.raises(UserError, match="POLICY_PRIOR is 'atc', but the objective weighs no due dates"):
        choose_prior(with_hooks(sparse(), "atc"), False, TRIAL)


@pytest.mark.parametrize(("made", "prior"), [(promised, "atc"), (habits, "logged")])
def test_a_pointer_policy_refuses_a_start_that_it_cannot_see(made, prior):
    """Descriptions of actions lack habits and due dates: such a policy would silently start like fifo."""
    simulator, pointer = with_hooks(made(), prior), Trial(None, True, TRIAL.play, None)
    with pytest.raises(UserError, match=f"POLICY_PRIOR is '{prior}', but a pointer policy .* rule, fifo, spt"):
        choose_prior(simulator, False, pointer)
    assert choose_prior(simulator, False, TRIAL).options == {"policy_prior": prior}
    begun = Trial({"policy_prior": prior}, True, TRIAL.play, None)  # a run of an earlier version can still resume
    assert choose_prior(simulator, False, begun).options == {"policy_prior": prior}


def test_the_rule_stays_as_it_was():
    own, named = ProcessSimulator(office()), ProcessSimulator(office(), policy_prior.RULE)
    assert own.initial_feature_weights.tolist() == np.float32([0.7, 6.0, -2.0]).tolist()
    assert own.initial_logits[-1] == -9.0
    assert own.description() == named.description()
    assert "prior" not in own.description()
    assert ProcessSimulator(office(), "fifo").description()["prior"] == "fifo"
    assert ProcessSimulator(office(), "fifo").labels["features"][1] == "serves the oldest case"


def test_sparse_work_does_not_begin_with_the_rule():
    prior, lines = best_start(sparse())
    assert prior in ("fifo", "spt")
    assert lines[0].startswith(f"The policy starts like {prior}, not from the rule of thumb: ")


def test_the_chosen_start_is_at_least_as_good_as_the_best_heuristic():
    simulator = ProcessSimulator(sparse(), best_start(sparse())[0])
    spec = spec_for(simulator, (8,), (8,), "tanh")
    model = new_model(Config(), simulator, spec)
    params = align_params(model.flat[: model.layout.actor_size].numpy(), spec)
    player, means = CompiledPlayer(simulator, spec, 1), {}
    for name in ("trained", "fifo", "spt"):
        records, _ = player.play(name, params if name == "trained" else None, 3, 1)
        means[name] = np.mean([record["mean_cycle_time"] for record in records])
    assert means["trained"] <= 1.02 * min(means["fifo"], means["spt"])


def test_a_run_resumes_with_the_prior_that_it_began_with(tmp_path):
    small = {"training_episodes": 1, "num_envs": 1, "actor_hidden_size": 8, "critic_hidden_size": 8}
    small |= {"num_hidden_layers": 1, "update_execution": "eager", "simulation_threads": 1}
    (tmp_path / "desk.json").write_text(json.dumps(scenario_content(sparse())))
    values = {**small, "scenario": str(tmp_path / "desk.json"), "run_directory": str(tmp_path / "run")}
    run = build_run(Settings(Config(**values)), False, lambda line: None)
    run.train(Console(file=io.StringIO()), lambda: False)
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved["values"]["policy_prior"] in ("fifo", "spt")
    assert saved["sources"]["policy_prior"] == "simulation"
    assert run.trainer.metadata["source"]["prior"] == saved["values"]["policy_prior"]
    assert from_source(run.trainer.metadata["source"]).simulator.prior == saved["values"]["policy_prior"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "simulate", None)  # a resume asks nobody
        again = build_run(Settings(Config(**{**values, "training_episodes": 2})), True, lambda line: None)
        again.lock.release()
    assert again.trainer.iteration == 1
    assert again.trainer.simulator.prior == saved["values"]["policy_prior"]


def test_priors_belong_to_processes():
    with pytest.raises(UserError, match="has no habits of a log"):
        choose_prior(with_hooks(sparse(), "logged"), False, TRIAL)
    given = loaded(habits(), "logged")
    start = choose_prior(given.simulator, False, TRIAL)
    found = with_choice(start, set_up(Settings(Config(policy_prior="logged")), given))
    settings, with_habits = found.settings, found.loaded
    assert (settings.config.policy_prior, settings.sources, start.lines) == ("logged", {}, [])
    assert with_habits.simulator.prior == "logged"
    assert with_habits.source["prior"] == "logged"
    assert with_habits.with_options({"policy_prior": "rule"}).source == loaded(habits()).source


def test_what_is_better_than_the_trained_policy_is_said():
    simulator = ProcessSimulator(sparse())

    def played(**hours):
        records = {name: [{"mean_cycle_time": value} for value in of] for name, of in hours.items()}
        return sentences(Evaluation(3, records), simulator)

    start, best = played(trained=[3.0, 4.0, 5.0], untrained=[2.0, 3.1, 4.0], fifo=[2.5, 3.4, 4.5], spt=[9.0, 9.0, 9.0])
    assert start.startswith("The trained policy is worse than its start, in 3 short episodes (")
    assert "worse than the best heuristic, fifo" in best
    assert played(trained=[3.0, 4.0, 5.0], untrained=[3.0, 4.2, 4.9], fifo=[3.2, 4.5, 4.6]) == []
