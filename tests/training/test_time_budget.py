"""Time budgets: what parses, when a run stops, what its schedule does, resume; by a clock that does not run."""

import io

import pytest
from rich.console import Console

pytest.importorskip("pydantic")

from longstride.cli import main
from longstride.config import Config
from longstride.errors import UserError
from longstride.settings import Settings
from longstride.training.assembly.presets import budget_lines, with_length
from longstride.training.assembly.run import build_run
from longstride.training.display.progress import Progress
from longstride.training.run_directory.checkpoint import load_checkpoint
from longstride.training.run_directory.metrics_log import MetricsLog, read_metrics
from longstride.training.time_budget import NO_LIMIT, Budget, budget_of, parse_duration

SMALL = {
    "simulator": "oracles.toy_simulators:Bandit",
    "num_envs": 1,
    "activation": "tanh",
    "actor_hidden_size": 16,
    "critic_hidden_size": 16,
    "num_hidden_layers": 2,
    "batch_size": 128,
    "device": "cpu",
    "update_threads": 1,
}


class Clock:
    def __init__(self, now=100.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3h", 10_800), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("2.5h", 9000), (" 1H 2m 3.5s", 3723.5)],
)
def test_what_parses(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["3", "h", "", "soon", "-3h", "0s", "30m1h", "3h 5", "1e3s", "nan", "3 days"])
def test_what_does_not_parse_is_a_sentence(text):
    with pytest.raises(UserError, match=r"which is not a duration; write it like 3h, 90m, 1h30m, 45s or 2.5h\.$"):
        parse_duration(text)


def test_a_bad_budget_ends_the_command_with_a_sentence(capsys, tmp_path):
    assert main(["--time-budget", "soon", "--run-directory", str(tmp_path / "r")]) == 2
    assert capsys.readouterr().err.startswith("error: TIME_BUDGET is 'soon', which is not a duration")


def test_rounds_go_on_while_one_like_the_longest_and_a_tenth_fits():
    """Rounds of 10, 20 and 12 of 66 seconds: after 42, another of 22 ends at 64; after 46 more it would not."""
    clock = Clock()
    budget = Budget(66.0, clock)
    assert budget.another_iteration(), "nothing is known yet"
    for seconds in (10.0, 20.0, 12.0):
        clock.now += seconds
        assert budget.another_iteration()
    clock.now += 3.0
    assert not budget.another_iteration(), "45 + 1.1 * 20 is more than 66"
    assert (budget.elapsed, budget.share) == (45.0, 45 / 66)


def test_time_that_no_later_round_takes_is_no_part_of_a_round():
    """A first round of 40 seconds, 30 of them for trials: the next is taken to last 10, and 11 fit into 15."""
    clock = Clock()
    budget = Budget(55.0, clock)
    assert budget.another_iteration()
    clock.now += 40.0
    budget.leave_out(30.0)
    assert budget.another_iteration()
    assert budget.elapsed == 40.0


def test_a_round_with_an_evaluation_needs_its_time_too():
    """After a round of 10 seconds of 40: one more and 15 of evaluation end by 37.5, with 20 of evaluation too late."""
    clock = Clock()
    budget = Budget(40.0, clock)
    budget.another_iteration()
    clock.now += 10.0
    assert budget.another_iteration(15.0)
    other = Budget(40.0, clock)
    other.another_iteration()
    clock.now += 10.0
    assert not other.another_iteration(20.0)


def test_a_longer_iteration_needs_more_time():
    """After one of 10 seconds of 40, one of 2.5 times as long ends by 37.5 with its margin, one of 3 times too late."""
    for ratio, fits in ((2.5, True), (3.0, False)):
        clock = Clock()
        budget = Budget(40.0, clock)
        budget.another_iteration()
        clock.now += 10.0
        assert budget.another_iteration(ratio=ratio) is fits


def test_no_round_begins_when_the_time_is_over():
    clock = Clock()
    budget = Budget(5.0, clock)
    clock.now += 5.0
    assert not budget.another_iteration()
    clock.now += 5.0
    assert budget.share == 1.0


def test_iterations_left_by_their_mean():
    clock = Clock()
    budget = Budget(100.0, clock)
    assert budget.iterations_left() == 0, "nobody knows"
    budget.another_iteration()
    clock.now += 10.0
    assert budget.iterations_left() == 9
    budget.another_iteration()
    clock.now += 20.0
    assert budget.iterations_left() == 4, "70 seconds at 15 each"


def test_a_resumed_run_has_what_is_left():
    clock = Clock()
    budget = Budget(100.0, clock)
    budget.another_iteration()
    clock.now += 40.0
    state = budget.state_dict()
    assert state == {"elapsed": 40.0, "longest_iteration": 40.0}
    later = Clock(5000.0)
    resumed = Budget(100.0, later)
    resumed.load_state_dict(state)
    assert resumed.elapsed == 40.0
    assert resumed.another_iteration()
    later.now += 20.0
    assert not resumed.another_iteration(), "60 + 44 is more than 100"
    fresh = Budget(100.0, later)
    fresh.load_state_dict({})
    assert fresh.elapsed == 0.0


@pytest.mark.parametrize(
    ("config", "sources", "episodes"),
    [
        (Config(time_budget="1h"), {"training_episodes": "file"}, NO_LIMIT),
        (Config(time_budget="1h", training_episodes=7), {"training_episodes": "file"}, 7),
        (Config(time_budget="1h"), {"training_episodes": "flag"}, 50),
        (Config(time_budget="1h", training_episodes=269), {"training_episodes": "preset"}, 269),
        (Config(), {}, 50),
    ],
)
def test_time_alone_ends_a_run_whose_episodes_nobody_chose(config, sources, episodes):
    changed = with_length(Settings(config, sources), 1)
    assert changed.config.training_episodes == episodes
    assert (changed.sources.get("training_episodes") == "time_budget") == (episodes == NO_LIMIT)
    lines = budget_lines(changed, budget_of(changed.config.time_budget))
    assert len(lines) == bool(config.time_budget)
    assert all((" alone: " in line) == (episodes == NO_LIMIT) for line in lines)


# Whole runs


def new_run(directory, clock, seconds, resume=False, round_seconds=10.0, **changes):
    """Return a run whose rounds take so many seconds of a clock that does not run by itself."""
    config = Config(**{**SMALL, "run_directory": str(directory), "time_budget": "1h", **changes})
    run = build_run(Settings(config, dict.fromkeys(changes, "flag")), resume, lambda text: None)
    run.trainer.budget = Budget(seconds, clock)
    if resume:
        run.trainer.budget.load_state_dict(load_checkpoint(directory)[1]["time_budget"])
    collect = run.trainer.collector.collect

    def slowly(*arguments):
        if run.trainer.scales.statistics.count[0]:  # the instance that plays before the first round takes no time
            clock.now += round_seconds
        return collect(*arguments)

    run.trainer.collector.collect = slowly
    return run


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    monkeypatch.setattr(MetricsLog, "_open_board", lambda *_: None)


def test_a_run_stops_inside_its_budget_with_everything_saved(tmp_path):
    """Rounds of 10 seconds in 60: after five another would end at 61 with its margin."""
    clock, text = Clock(), io.StringIO()
    run = new_run(tmp_path, clock, 60.0)
    assert run.train(Console(file=text), lambda: False) is True
    assert clock.now == 150.0
    assert load_checkpoint(tmp_path)[1]["iteration"] == 5
    assert load_checkpoint(tmp_path)[1]["time_budget"] == {"elapsed": 50.0, "longest_iteration": 10.0}
    rates = [record["learning_rate"] for record in read_metrics(tmp_path)]
    assert rates == pytest.approx([3e-4 * (1 - i / 6) for i in range(1, 6)]), "updates begin after 10, 20, ... seconds"
    assert "iteration 1/6 (1 episode, 256 steps)" in text.getvalue()


def test_episodes_end_the_run_and_the_schedule_where_they_come_first(tmp_path):
    run = new_run(tmp_path, Clock(), 1000.0, round_seconds=0.0, training_episodes=4)
    assert run.train(Console(file=io.StringIO()), lambda: False) is True
    rates = [record["learning_rate"] for record in read_metrics(tmp_path)]
    assert rates == pytest.approx([3e-4 * (1 - i / 4) for i in range(4)])


def test_a_run_goes_on_with_the_time_that_is_left(tmp_path):
    clock = Clock()
    run = new_run(tmp_path, clock, 60.0)
    assert run.train(Console(file=io.StringIO()), lambda: run.trainer.iteration == 2) is False
    later = Clock(9000.0)
    assert new_run(tmp_path, later, 60.0, resume=True).train(Console(file=io.StringIO()), lambda: False) is True
    assert load_checkpoint(tmp_path)[1]["iteration"] == 5
    assert later.now == 9030.0
    used_up = new_run(tmp_path, later, 60.0, resume=True)
    assert used_up.train(Console(file=io.StringIO()), lambda: False) is True
    assert used_up.trainer.iteration == 5


def test_a_checkpoint_without_a_budget_says_nothing_of_time(tmp_path):
    run = build_run(Settings(Config(**{**SMALL, "run_directory": str(tmp_path), "training_episodes": 1})), False, print)
    assert not run.trainer.budget.is_limited
    run.train(Console(file=io.StringIO()), lambda: False)
    assert "time_budget" not in load_checkpoint(tmp_path)[1]


def test_the_command_says_that_the_budget_ended_the_run(tmp_path, capsys, monkeypatch):
    clock = Clock()
    monkeypatch.setattr("longstride.training.assembly.run.budget_of", lambda text: Budget(parse_duration("30s"), clock))
    original = Progress.iteration

    def slowly(self, record):
        clock.now += 8.0
        original(self, record)

    monkeypatch.setattr(Progress, "iteration", slowly)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert main([*flags, "--time-budget", "30s", "--run-directory", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "Time budget 30 s alone: how much is learned depends on the speed of the machine." in out
    assert "The time budget of 30 s ended the run after 24 s: 3 iterations are done." in out
    assert "Trained 3 iterations; everything is in" in out


def test_a_budget_that_ends_before_the_first_iteration_sends_nobody_to_a_policy(tmp_path, capsys, monkeypatch):
    clock = Clock()

    def over_at_once(config):
        budget = Budget(parse_duration("30s"), clock)
        clock.now += 40.0
        return budget

    monkeypatch.setattr("longstride.training.assembly.run.budget_of", over_at_once)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    assert main([*flags, "--time-budget", "30s", "--run-directory", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert out.endswith("No iteration is done, so there is no policy to evaluate: name a longer --time-budget.\n")
    assert "No report" not in out
    assert "Trained 0" not in out
