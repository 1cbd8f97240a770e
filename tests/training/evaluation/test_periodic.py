"""Evaluations while a run trains: when, of what, on which streams; and that they change nothing that is learned."""

import io
import threading

import numpy as np
import pytest
import torch
from helpers.specs import mlp_spec
from oracles.toy_simulators import Shop
from rich.console import Console

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride.config import Config
from longstride.errors import EndlessEpisodeError, UserError
from longstride.policies.networks import ActorCritic, restore_model
from longstride.seeding import stream
from longstride.settings import Settings
from longstride.simulators.simulator import new_state
from longstride.training import best_tracker
from longstride.training.assembly.run import build_run
from longstride.training.choice.choose import Choice
from longstride.training.choice.mean_policy import MeanPolicy
from longstride.training.display.messages import evaluation_line, start_line
from longstride.training.evaluation import best_heuristic, periodic
from longstride.training.evaluation.best_heuristic import Heuristics
from longstride.training.evaluation.compiled import CompiledPlayer, Length, Played
from longstride.training.evaluation.periodic import PeriodicEvaluation, unasked_evaluation
from longstride.training.evaluation.trained_policy import load_trained_policy
from longstride.training.record import Best
from longstride.training.run_directory.checkpoint import load_checkpoint, policy_folder
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics
from longstride.training.trainer import Trainer

EPISODES, SEED = 5, 4
SHOP = {
    "simulator": "oracles.toy_simulators:Shop",
    "training_episodes": 5,
    "num_envs": 2,
    "actor_hidden_size": 16,
    "critic_hidden_size": 16,
    "num_hidden_layers": 2,
    "batch_size": 32,
    "learning_rate_actor": 1e-2,
    "device": "cpu",
    "seed": SEED,
    "evaluation_episodes": EPISODES,
    "update_execution": "eager",
}


@pytest.fixture(autouse=True, scope="module")
def no_tensorboard():
    """Its import takes seconds and these tests are about the loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetricsLog, "_open_board", lambda *_: None)
        yield


def train(directory, stop_after=None, resume=False, **changes):
    run = build_run(Settings(Config(**{**SHOP, "run_directory": str(directory), **changes})), resume, lambda text: None)
    console = Console(file=io.StringIO())
    run.train(console, lambda: stop_after is not None and run.trainer.iteration >= stop_after)
    return run, console.file.getvalue()


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A run of 5 training episodes, evaluated after the second, the fourth and the last, and what it printed."""
    directory = tmp_path_factory.mktemp("runs") / "evaluated"
    return directory, train(directory, evaluate_every=2)[1]


def without_clock(record):
    kept = {k: v for k, v in record.items() if "seconds" not in k and "per_second" not in k}
    return {**kept, "evaluation": kept["evaluation"] and {**kept["evaluation"], "seconds": 0.0}}


def cash_of_slow_play(directory, episode):
    """Play an episode of the greedy policy in plain Python, with torch's model."""
    shop = Shop()
    sizes = (shop.observation_size, 16, 16, shop.action_space.outputs), (shop.observation_size, 16, 16, 1)
    model = ActorCritic(mlp_spec(*sizes, "relu", space=shop.action_space, action_features=shop.action_feature_size))
    restore_model(model, load_checkpoint(directory)[0])
    rng, state = stream(SEED, "periodic evaluation", episode), new_state(shop)[0]
    Shop.reset(state, shop.parameters, rng)
    for _ in range(shop.max_steps):
        mask, features = np.ones(4, np.bool_), np.zeros((4, shop.action_feature_size), np.float32)
        observation = np.zeros(shop.observation_size, np.float32)
        Shop.observe(state, shop.parameters, observation)
        Shop.action_mask(state, shop.parameters, mask)
        Shop.action_features(state, shop.parameters, mask, features)
        with torch.no_grad():
            x = model.normalise(torch.from_numpy(observation)[None])
            logits = model.logits(x, torch.from_numpy(features)[None])[0].numpy()
        _, terminated = Shop.step(state, shop.parameters, int(np.where(mask, logits, -np.inf).argmax()), rng)
        if terminated or Shop.truncated(state, shop.parameters):
            break
    return float(state.cash)


def test_it_is_evaluated_every_so_often_and_at_the_end(evaluated):
    directory, printed = evaluated
    assert [r["evaluation"] is not None for r in read_metrics(directory)] == [False, True, False, True, True]
    assert printed.count("evaluated greedily on 5 episodes") == 3
    assert set(read_metrics(directory)[1]["evaluation"]["metrics"]) == {"return", "cash", "days"}, "numbers alone"


def cash_of_the_rule(episode):
    """Play an episode of the shop's heuristic in plain Python."""
    shop = Shop()
    rng, state = stream(SEED, "periodic evaluation", episode), new_state(shop)[0]
    own = stream(SEED, "periodic evaluation policy", episode)
    Shop.reset(state, shop.parameters, rng)
    for _ in range(shop.max_steps):
        mask = np.ones(4, np.bool_)
        Shop.action_mask(state, shop.parameters, mask)
        action = Shop.heuristics["order_up"](state, shop.parameters, mask, own)
        _, terminated = Shop.step(state, shop.parameters, int(action), rng)
        if terminated or Shop.truncated(state, shop.parameters):
            break
    return float(state.cash)


def test_the_best_heuristic_is_played_once_on_the_same_streams(evaluated):
    _, printed = evaluated
    expected = np.mean([cash_of_the_rule(k) for k in range(EPISODES)])
    assert printed.count(f" (best heuristic, order_up: {expected:,.2f}).") == 3


def heuristics(monkeypatch, records, evaluation=None):
    monkeypatch.setattr(best_heuristic, "heuristic_records", records)
    return Heuristics(Shop(), 3, 0, 1, evaluation)


def test_heuristics_are_played_when_somebody_watches_or_evaluates(monkeypatch):
    played = heuristics(monkeypatch, lambda *_: {"order_up": [{"cash": 1.0}, {"cash": 4.0}]})
    assert (played.due(29.0, False), played.due(0.0, True), played.due(31.0, False)) == (False, True, True)
    assert (played.play(), played.best) == ("", ("order_up", 2.5))
    assert not played.due(1e9, True), "once"
    known = {"best_heuristic": "order_up", "policies": {"order_up": {"cash": {"mean": 7.0}}}}
    assert heuristics(monkeypatch, None, known).best == ("order_up", 7.0)
    assert not heuristics(monkeypatch, None, known).due(1e9, True)
    assert heuristics(monkeypatch, None, {"best_heuristic": None}).best is None


def test_a_heuristic_that_fails_ends_no_run(monkeypatch):
    def fail(*_):
        raise UserError("Shop, heuristics['order_up'] cannot be compiled.")

    played = heuristics(monkeypatch, fail)
    said = "There is no heuristic to compare with: Shop, heuristics['order_up'] cannot be compiled."
    assert (played.play(), played.best, played.due(1e9, True)) == (said, None, False)


def test_the_last_evaluation_is_of_the_last_weights_on_streams_of_its_own(evaluated):
    directory, _ = evaluated
    expected = np.mean([cash_of_slow_play(directory / "checkpoints" / "last", k) for k in range(EPISODES)])
    last = read_metrics(directory)[-1]["evaluation"]
    assert last["metrics"]["cash"]["mean"] == pytest.approx(expected, abs=1e-9)


def test_the_best_checkpoint_is_the_best_evaluated(evaluated):
    directory, _ = evaluated
    found = {
        r["iteration"]: r["evaluation"]["metrics"]["cash"]["mean"] for r in read_metrics(directory) if r["evaluation"]
    }
    facts = load_checkpoint(directory / "checkpoints" / "best")[1]
    assert facts["best"] >= max(found.values())
    if facts["iteration"]:
        assert found[facts["iteration"]] == facts["best"], "the weights after that update"
    else:  # training has not found anything better than its start
        assert f"Before training, on the episodes of all evaluations: cash {facts['best']:.2f} ± " in evaluated[1]
    expected = np.mean([cash_of_slow_play(directory / "checkpoints" / "best", k) for k in range(EPISODES)])
    assert facts["best"] == pytest.approx(expected, abs=1e-9)


def test_it_changes_nothing_that_is_learned(evaluated, tmp_path):
    train(tmp_path / "without")
    first, second = load_checkpoint(evaluated[0])[0], load_checkpoint(tmp_path / "without")[0]
    assert {name for name in first if not name.startswith("candidate.")} == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in second)
    with_it, without = (
        [{**without_clock(r), "evaluation": None} for r in read_metrics(d)]
        for d in (evaluated[0], tmp_path / "without")
    )
    assert with_it == without


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_resumed_run_is_evaluated_as_the_uninterrupted_one(evaluated, tmp_path, stop_after):
    directory = tmp_path / "run"
    train(directory, stop_after, evaluate_every=2)
    train(directory, resume=True, evaluate_every=2, simulation_threads=2)
    assert list(map(without_clock, read_metrics(directory))) == list(map(without_clock, read_metrics(evaluated[0])))
    for which in ("last", "best"):
        (a, b), (c, d) = (load_checkpoint(run / "checkpoints" / which) for run in (directory, evaluated[0]))
        assert all(torch.equal(a[name], c[name]) for name in c)
        assert (b["iteration"], b["best"], b["best_judged_by"]) == (d["iteration"], d["best"], "evaluations")


GROWING = {
    **{"simulator": "oracles.toy_simulators:Bandit", "activation": "tanh", "training_episodes": 1, "num_envs": 0},
    **{"activation": "tanh", "num_epochs": 1, "batch_size": 256},
}
"""The network of the other tests with this simulator; short updates."""


def without_asking(directory, stop_after=None, resume=False, **changes):
    """Return the run that nobody asked to evaluate, and what it printed."""
    return train(directory, stop_after, resume, **{**GROWING, **changes})


def test_a_run_whose_rollouts_grow_is_evaluated_unasked(tmp_path):
    """50,000 steps are 25 iterations; all evaluations play a tenth of that, episodes of 256, and learn nothing."""
    run, printed = without_asking(tmp_path / "unasked")
    found = [r["evaluation"] for r in read_metrics(tmp_path / "unasked")]
    assert [each is not None for each in found] == [False] * 24 + [True], "and once before training"
    assert found[-1]["episodes"] == 4
    assert "best heuristic" not in printed
    assert "The policy of the run is " in printed
    facts = load_checkpoint(tmp_path / "unasked" / "checkpoints" / "best")[1]
    assert (facts["best_judged_by"], facts["best"]) == ("evaluations", run.trainer.best_tracker.best.value)
    trained = sum(r["steps"] for r in read_metrics(tmp_path / "unasked"))
    assert 256 * 8 + run.trainer.best_tracker.chosen.steps <= trained / 10, "together"
    assert run.trainer.best_tracker.chosen.longest == 0, "episodes are whole"
    without_asking(tmp_path / "never", evaluate_every=0)
    first, second = (load_checkpoint(tmp_path / name)[0] for name in ("unasked", "never"))
    assert all(torch.equal(first[name], second[name]) for name in second)
    assert [r["evaluation"] for r in read_metrics(tmp_path / "never")] == [None] * 25


def test_a_resumed_run_chooses_the_same_policy(tmp_path):
    """100,000 steps: a stop between two evaluations, and other threads, change neither candidates nor choice."""
    length = {"training_episodes": 2}
    straight, printed = without_asking(tmp_path / "straight", **length)
    without_asking(tmp_path / "run", stop_after=7, **length)
    resumed, later = without_asking(tmp_path / "run", resume=True, simulation_threads=2, **length)
    chosen = [line for line in printed.splitlines() if line.startswith("The policy of the run is ")]
    assert len(chosen) == 1
    assert chosen[0] in later.splitlines()
    ours, other = resumed.trainer.best_tracker, straight.trainer.best_tracker
    assert ours.state_dict()[1] == other.state_dict()[1]
    assert ours.state_dict()[1]["outcomes"] > 0
    assert ours.chosen.steps == other.chosen.steps
    assert (ours.chosen.candidate.params == other.chosen.candidate.params).all()
    for which in ("last", "best"):
        (a, b), (c, d) = (load_checkpoint(tmp_path / run / "checkpoints" / which) for run in ("run", "straight"))
        assert a.keys() == c.keys() and all(torch.equal(a[name], c[name]) for name in c)
        assert (b["iteration"], b["best"], b.get("judge")) == (d["iteration"], d["best"], d.get("judge"))


def test_the_mean_of_the_late_policies_may_be_the_policy_of_the_run(tmp_path, monkeypatch):
    played = []

    def include(mean, params):
        played.append(params.copy())
        real(mean, params)

    def take_mean(candidates, evaluation, simulator, spec, budget, rare_states, mean_policy, *rest):
        return Choice(mean_policy, False, 0.5, 0.1, 8, 2, 800, None)

    real = MeanPolicy.include
    monkeypatch.setattr(MeanPolicy, "include", include)
    monkeypatch.setattr(best_tracker, "choose", take_mean)
    run, printed = without_asking(tmp_path / "run")
    assert "The policy of the run is the mean of its late ones, the best of 2 in 8 further episodes" in printed
    number = np.arange(1.0, len(played) + 1.0)
    weights = np.prod([number + ahead for ahead in range(5)], axis=0)
    found, said = load_trained_policy(tmp_path / "run"), []
    assert found.actor_params == pytest.approx(weights / weights.sum() @ np.array(played), abs=1e-6)
    assert (found.actor_params != run.trainer.actor_params()).any()
    assert policy_folder(tmp_path / "run", said.append) == tmp_path / "run" / "checkpoints" / "best"
    assert said[0].startswith("The policy is the mean of the late ones, the best of the evaluations")
    facts = load_checkpoint(tmp_path / "run" / "checkpoints" / "best")[1]
    assert (facts["iteration"], facts["mean_of_late_policies"]) == (25, True)
    assert (played[-1] == run.trainer.actor_params()).all(), "the last policy is in it, the untrained one is not"
    assert len(played) == 25


@pytest.fixture
def uncompiled(monkeypatch):
    """Compile nothing for runs that do not train."""
    monkeypatch.setattr(Trainer, "compile", lambda trainer: 0.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_envs": 2},
        {"evaluate_every": 0},
        {"simulator": "process", "grow_rollouts": True},
    ],
)
def test_other_runs_are_not_evaluated_unasked(tmp_path, changes, uncompiled):
    values = {**SHOP, **GROWING, "run_directory": str(tmp_path / "run")}
    sources = dict.fromkeys(changes, "flag")
    run = build_run(Settings(Config(**values | changes), sources), False, lambda text: None)
    assert run.trainer.best_tracker._evaluation is None
    if "simulator" in changes:
        assert run.trainer.length.steps is not None


@pytest.mark.parametrize(
    ("training_episodes", "count", "evaluated"),
    [(39, 0, False), (40, 0, True), (159, 0, True), (160, 1, True), (1_000, 8, True)],
)
def test_a_process_is_evaluated_in_whole_episodes_where_the_run_is_long(
    tmp_path, training_episodes, count, evaluated, uncompiled
):
    """A tenth of 40 episodes of the loan desk, of 62,000 steps each, compares the last policy with the first."""
    values = {"simulator": "process", "run_directory": str(tmp_path / "run"), "device": "cpu"}
    run = build_run(Settings(Config(**values, training_episodes=training_episodes)), False, lambda text: None)
    evaluation = run.trainer.best_tracker._evaluation
    assert (evaluation is not None) == evaluated
    if evaluation is not None:
        total = training_episodes * run.trainer.simulator.expected_steps
        assert evaluation.at_intervals == (count > 0)
        assert evaluation.interval == (pytest.approx(total / count, rel=0.05) if count else 0)
        assert (evaluation.cut, evaluation.asked) == (0, False)


def test_about_so_many_steps_are_played_of_the_same_episodes():
    """An episode of the shop has at most 30 days; of two that have 10, a hundred more steps are ten."""
    player = CompiledPlayer(Shop(), None, 1)
    whole, _ = player.play("order_up", None, 50, SEED, "periodic evaluation")
    days = np.mean([each["days"] for each in whole[:4]])

    def play(params, name, episodes, streams):
        return player.play_each("order_up", None, episodes, SEED, streams)

    for length, count in ((Length(600, 4, 100), int(600 / days)), (Length(600, 4, 9), 9), (Length(1, 4, 9), 4)):
        found = PeriodicEvaluation(play, length, 30, interval=1).run(None, "cash")
        assert found.values == [each["cash"] for each in whole[:count]]
        assert found.steps == sum(each["days"] for each in whole[:count])


def test_the_first_line_says_if_episodes_are_cut():
    found = {"metrics": {"cash": {"mean": 3.0, "low": 2.0, "high": 4.0}}}
    assert start_line("cash", "", found) == "Before training, on the episodes of all evaluations: cash 3.0 ± 1.0."
    cut = "Before training, on the episodes of all evaluations, each cut after 3,125 steps: cash 3.0 ± 1.0."
    assert start_line("cash", "", found, 3_125) == cut


def test_an_evaluation_that_leaves_too_little_for_the_end_ends_after_one_episode():
    def play(params, name, episodes, streams):
        return [Played({"cash": 1.0}, 300) for _ in episodes]

    evaluation = PeriodicEvaluation(play, Length(600, 4, 100), 30, interval=1, most=3_000, expects=True)
    assert evaluation.run(None, "cash", spent=600).steps == 1_200
    given_up = evaluation.run(None, "cash", spent=601)
    assert (given_up.record, given_up.values, given_up.steps) == ({}, [], 300)
    assert evaluation.run(None, "cash", spent=601, trained=31_000).steps == 1_200, "a run that was extended"
    assert PeriodicEvaluation(play, Length(0, 4, 4), 30, every=1).run(None, "cash", spent=10**9).steps == 1_200


def test_evaluations_keep_to_their_share_where_episodes_become_longer_than_expected(tmp_path):
    """At first episodes have about 20 steps; in the end they last until they are cut, after 1,000."""
    run, printed = without_asking(tmp_path / "run", simulator="oracles.toy_simulators:Errors", training_episodes=2)
    records, chosen = read_metrics(tmp_path / "run"), run.trainer.best_tracker.chosen
    spent = load_checkpoint(tmp_path / "run" / "checkpoints" / "last")[1]["judge"]["spent"]
    found = [r["evaluation"] for r in records if r["evaluation"]]
    assert found and records[-1]["evaluation"] is None, "those at the end would have taken too much"
    assert chosen.candidate.iteration == len(records)
    assert chosen.value > 500.0
    assert spent + chosen.steps <= 1.05 * sum(r["steps"] for r in records) / 10
    assert "on the episodes of all evaluations, each cut after 1,000 steps: return" in printed
    assert f"{chosen.episodes} further episodes of at most {chosen.longest:,} steps: return" in printed


def test_the_last_policy_stays_where_evaluations_ended_early_and_nothing_is_compared(tmp_path, monkeypatch):
    """One that was evaluated while episodes were short says nothing about it."""
    monkeypatch.setattr(best_tracker, "choose", lambda *arguments: None)
    run, _ = without_asking(tmp_path / "run", simulator="oracles.toy_simulators:Errors", training_episodes=2)
    assert load_trained_policy(tmp_path / "run").actor_params == pytest.approx(run.trainer.actor_params())


def test_long_episodes_of_an_evaluation_that_nobody_asked_for_are_cut(monkeypatch):
    played = []
    monkeypatch.setattr(periodic, "build_player", lambda simulator, *_: played.append(simulator) or FakePlayer())
    simulator = Shop()
    simulator.max_steps = 100_000
    for total in (2_000_000, 50_000):
        evaluation = unasked_evaluation(simulator, None, total, SEED, 1)
        evaluation.play(None, "trained", range(4), "streams")
        assert evaluation.cut == (3_125 if total == 2_000_000 else 1_000)
        steps = (total // evaluation.interval + 1) * evaluation.length.steps if evaluation.interval else 0
        assert steps <= total / 20
    assert ([each.max_steps for each in played], simulator.max_steps) == ([3_125, 1_000], 100_000)
    assert unasked_evaluation(simulator, None, 39_999, SEED, 1) is None, "too short to compare two policies"


class FakePlayer:
    def play_each(self, *_):
        return [Played({"cash": 1.0}, 1)]


def test_an_environment_is_evaluated_too(tmp_path):
    pytest.importorskip("gymnasium")
    options = {
        "simulator": "gymnasium:CartPole-v1",
        "simulator_options": {"max_episode_steps": 30},
        "rollout_steps": 60,
    }
    train(tmp_path / "with", **options, evaluate_every=2, training_episodes=2)
    train(tmp_path / "without", **options, training_episodes=2)
    first, second = (load_checkpoint(tmp_path / name)[0] for name in ("with", "without"))
    assert all(torch.equal(first[name], second[name]) for name in second)
    found = read_metrics(tmp_path / "with")[-1]["evaluation"]
    assert found["episodes"] == EPISODES
    assert found["metrics"]["return"] == found["metrics"]["length"], "the cart earns 1 a step"


@pytest.mark.parametrize(
    ("best", "value", "judged_by", "lower", "beaten"),
    [
        (Best(), 1.0, "iterations", False, True),
        (Best(), None, "iterations", False, False),
        (Best(2.0, "iterations"), 3.0, "iterations", False, True),
        (Best(2.0, "iterations"), 3.0, "iterations", True, False),
        (Best(2.0, "iterations"), 2.0, "iterations", False, False),
        (Best(2.0, "iterations"), 1.0, "evaluations", False, True),
        (Best(2.0, "evaluations"), 3.0, "iterations", False, False),
        (Best(2.0, "evaluations"), 1.0, "evaluations", True, True),
        (Best(2.0, "evaluations"), 2.0, "evaluations", True, True),
        (Best(2.0, "evaluations"), 2.0, "evaluations", False, True),
        (Best(2.0, "evaluations"), 1.9, "evaluations", False, False),
    ],
)
def test_an_iteration_never_takes_the_place_of_an_evaluation(best, value, judged_by, lower, beaten):
    assert best.beaten_by(value, judged_by, lower) is beaten


def test_when_one_is_due():
    evaluation = PeriodicEvaluation(None, Length(0, 4, 4), 10, every=25)
    assert [iteration for iteration in range(1, 28) if evaluation.due(iteration, iteration == 27)] == [25, 27]
    by_steps = PeriodicEvaluation(None, Length(0, 4, 4), 10, interval=100)
    due = [trained for trained in range(30, 331, 30) if by_steps.due(1, trained == 330, trained, trained - 30)]
    assert due == [120, 210, 300, 330]
    assert not PeriodicEvaluation(None, Length(0, 4, 4), 10).due(9, True, 100, 0)


def test_a_metric_that_no_episode_had_is_said_to_be_missing():
    found = {"episodes": 3, "seconds": 1.0, "metrics": {}}
    assert evaluation_line(7, "cycle_time", "", found).endswith(
        "evaluated greedily on 3 episodes in 1 s: cycle time not known."
    )


def test_an_evaluation_that_never_ends_is_given_up(monkeypatch):
    """It plays whole episodes before a run has collected any, so it may be the first to meet an endless loop."""
    monkeypatch.setattr(periodic, "_COMPILING", 0.05)
    goes_on = threading.Event()

    class Stuck:
        def play_each(self, *arguments):
            goes_on.wait(60.0)
            return []

    monkeypatch.setattr(periodic, "build_player", lambda *_: Stuck())
    play = periodic.EpisodesPlayer(Shop(), None, SEED, 1, patience=0.05)
    with pytest.raises(EndlessEpisodeError, match="Shop: 3 episodes of an evaluation took longer than EPISODE_TIME"):
        play(np.zeros(1), "trained", range(3), "streams")
    goes_on.set()
    assert periodic.EpisodesPlayer(Shop(), None, SEED, 1)(np.zeros(1), "trained", range(3), "streams") == []
