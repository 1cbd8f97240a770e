"""What a policy sees of a team against its own scenario, to the bit; the search against all teams."""

import json

import numpy as np
import pytest

pytest.importorskip("optuna")

from oracles.process_play import scenario, service

from longstride.cli import main
from longstride.errors import UserError
from longstride.policies.families.pointer.family import POINTER
from longstride.policies.make_spec import spec_for
from longstride.process.front.pair import read_pair
from longstride.process.front.play import RunPlayer
from longstride.process.front.source import Run
from longstride.process.kernel.policy_prior import RULE
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.staff.moves import KINDS, make_space
from longstride.process.staff.search import TeamSearch
from longstride.process.staff.team_player import Acting, TeamPlayer
from longstride.process.whatif.compare import Sampling
from longstride.training.evaluation.trained_policy import TrainedPolicy

TWO_DAYS = Sampling(1, seed=3)
LIMIT = 43.0
"""Time that a made-up team keeps."""

WEEK = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
COSTS = {"everyone": 30.0, "per_hour": {"Eve's <b> expert": 80.0, "clerk 1": 35.0}, "paid": "on duty"}
PEOPLE = ["clerk 1", "clerk 2", "Eve's <b> expert", "Finn; the other"]


def desk(**changes):
    """Return a desk with two clerks, an expensive expert and a slow colleague, whose names have quotes and more."""
    checks = [service("Check", f"clerk {i}", "exponential", mean=0.8 + 0.1 * i) for i in (1, 2)]
    decides = [service("Decide", name, "exponential", mean=m) for name, m in zip(PEOPLE[2:], (0.7, 1.1), strict=True)]
    given = {
        "horizon": {"value": 24.0},
        "arrivals": {"process": "poisson", "rate": 1.2},
        "activities": ["Check", "Decide"],
        "resources": PEOPLE,
        "service": [*checks, *decides],
        "flow": {"seq": [{"task": "Check"}, {"task": "Decide"}]},
        "aims": {"costs": COSTS, "target": {"share": 0.9, "within": 6.0}},
    }
    return scenario(**{**given, **changes})


def shifts():
    hours = {name: [{"days": WEEK, "from": "04:00", "to": "20:00"}] for name in PEOPLE}
    return desk(working_hours=hours)


def abstract():
    return desk(time_unit="abstract")


def some_teams(space):
    """Return the people as they are, every single move, and a team of many moves."""
    many = list(space.base)
    for i, choice in enumerate(space.choices):
        many[i] = len(choice.options) - 1 if i % 2 == 0 else 0
    return [space.base, *space.neighbours()[::2], tuple(many)]


def exact(player, team, play):
    """Return the episodes of a team's own scenario; None if it cannot do the work."""
    try:
        own = player.scenario(team)
    except UserError:
        with pytest.raises(UserError):
            player.play(team, TWO_DAYS)
        return None
    return play(own)


@pytest.mark.parametrize("made", [shifts, abstract])
def test_a_policy_sees_a_team_with_the_costs_that_it_was_trained_with(made):
    process = made()
    base = read_pair("cost_per_case,mean_cycle_time", process).on(process)
    trained_on = base.model_copy(
        update={"aims": base.aims.model_copy(update={"objective": {"cost": 1, "cycle_time": 9}})}
    )
    own = ProcessSimulator(trained_on)
    spec = spec_for(own, (8,), (8,), "tanh", POINTER)
    params = np.random.default_rng(1).normal(0.0, 0.4, spec.layout.actor_size).astype(np.float32)
    layout = spec.layout
    for name, offset in layout.offsets.items():  # scales of observations are not negative
        if offset < layout.actor_size and name.endswith("_scale"):
            params[offset : offset + int(np.prod(layout.shapes[name]))] = 1.0
    policy = TrainedPolicy(params, spec)
    space = make_space(base, KINDS, 1, 1)
    player = TeamPlayer(space, Acting(policy, trained_on, RULE), 1)
    alone = RunPlayer(Run("run", own, policy), 1)
    kinds = set()
    for team in some_teams(space):
        records = exact(player, team, lambda own: alone.play("own", own, TWO_DAYS, lambda line: None)[0])
        if records is not None:
            mine = player.play(team, TWO_DAYS)
            assert [r["mean_cycle_time"] for r in mine] == [r["mean_cycle_time"] for r in records], space.words(team)
            assert [r["decisions"] for r in mine] == [r["decisions"] for r in records]
            kinds.add(mine[0]["mean_cycle_time"])
    assert len(kinds) > 3, "teams differ"


def small_space():
    base = read_pair("cost_per_case,mean_cycle_time", desk()).on(desk())
    return make_space(base, ["people"], 1, 1)


def made_up(team, space):
    """Return a cost and a time that only few teams trade well: each move has its price and its use."""
    cost = 100.0 + sum(
        (i + 1) * (option - c.none) for i, (option, c) in enumerate(zip(team, space.choices, strict=True))
    )
    use = sum((5 - i) * (option - c.none) for i, (option, c) in enumerate(zip(team, space.choices, strict=True)))
    return cost, 50.0 - use + 0.3 * use**2 / 10.0


def large_space():
    base = read_pair("cost_per_case,mean_cycle_time", shifts()).on(shifts())
    return make_space(base, ["people"], 4, 1)


def test_a_search_finds_the_cheapest_team_that_keeps_a_limit(tmp_path):
    """The oracle plays all teams; the search plays a fraction of them and finds the same optimum."""
    space = large_space()
    every = {space.words(team): made_up(team, space) for team in space.all()}
    assert len(every) == 216
    best = min(cost for cost, time in every.values() if time <= LIMIT)
    assert sum(cost == best and time <= LIMIT for cost, time in every.values()) == 1
    search = TeamSearch(tmp_path / "journal", space, 90, seed=0)
    assert not search.all_of_them
    search.run(lambda team: made_up(team, space), lambda: True)
    assert len(search.progress.played) <= 90
    found = min(p.values[0] for p in search.progress.front() if p.values[1] <= LIMIT)
    assert found == best


def searched(journal, space, count, interrupt_at=None):
    calls = []

    def play(team):
        calls.append(team)
        if len(calls) == interrupt_at:
            raise KeyboardInterrupt
        return made_up(team, space)

    search = TeamSearch(journal, space, count, seed=5)
    try:
        search.run(play, lambda: True)
    except KeyboardInterrupt:
        return None
    return search.progress.played


@pytest.mark.parametrize("at", [3, 28])
def test_a_search_that_was_killed_plays_what_an_uninterrupted_one_plays(tmp_path, at):
    space = large_space()
    whole = searched(tmp_path / "whole", space, 35)
    assert searched(tmp_path / "killed", space, 35, interrupt_at=at) is None
    continued = searched(tmp_path / "killed", space, 35)
    assert len(continued) == len(whole) == 35
    assert {words: p.values for words, p in continued.items()} == {words: p.values for words, p in whole.items()}


def test_what_cannot_be_searched_is_refused(tmp_path, capsys):
    file = tmp_path / "desk.json"
    file.write_text(json.dumps(scenario_content(desk())))
    for flags, words in (
        (["--moves", "magic"], "expected some of people, skills, hours"),
        (["--teams", "0"], "--teams is 0; expected 1 or more"),
        (["--minutes", "-1"], "--minutes is -1; expected more than 0"),
        (["--policy", "oracle"], "no heuristic oracle"),
        (["--objective", "cost=1"], "--mode staff sets the objective by --metrics"),
        (["--more", "0", "--fewer", "0", "--moves", "people"], "There is no other team"),
    ):
        assert main(["staff", str(file), *flags, "--run-directory", str(tmp_path / "teams")]) == 2
        assert words in capsys.readouterr().err
        assert not (tmp_path / "teams").exists()


def test_what_the_people_as_they_are_cannot_play_ends_the_search(tmp_path):
    """It is about all teams, such as a metric without a value, so no other team is tried."""
    space, tried = small_space(), []

    def play(team):
        tried.append(team)
        raise UserError("no episode has a value")

    with pytest.raises(UserError, match="no episode has a value"):
        TeamSearch(tmp_path / "journal", space, 100, seed=0).run(play, lambda: True)
    assert tried == [space.base]
