"""Equivalents of a policy, by hand: crossings of lines, and sentences that say no more than the intervals show."""

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from longstride.process.load import find_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Played, Variant, across
from longstride.process.whatif.content import as_json, cells
from longstride.process.whatif.equivalent import Equivalent, Step, crossing
from longstride.process.whatif.sentences import change_sentences, equivalent_sentence
from longstride.training.evaluation.evaluate import Evaluation

DESK = find_scenario("loan_desk")
SIMULATOR = ProcessSimulator(DESK)


def played(name="as it is", **policies):
    """Return a scenario with episodes of some policies, cycle times in hours."""
    records = {p: [{"mean_cycle_time": 60.0 * hours} for hours in of] for p, of in policies.items()}
    return Played(
        Variant(name, DESK, ["something is different"] * (name != "as it is")), SIMULATOR, Evaluation(3, records)
    )


BASE = played(trained=[5.0, 6.0, 7.0], spt=[7.0, 8.0, 10.0])


def equivalent(*differences, half=30.0, what="analyst", **of):
    """Return an equivalent from differences in minutes, each with the same half of its interval."""
    scale = 0.05 if what == "arrivals" else 1.0
    steps = [Step(scale * k, 360.0 + d, d, d - half, d + half) for k, d in enumerate(differences)]
    amounts = [step.amount for step in steps]
    ends = (crossing(amounts, [d + shift for d in differences]) for shift in (0.0, -half, half))
    return Equivalent(what, steps, *ends, **{"members": 5, "kinds": 3, "tried": 3, **of})


def test_a_crossing_lies_on_straight_lines():
    assert crossing([0.0, 1.0, 2.0], [3.0, 1.0, -1.0]) == 1.5
    assert crossing([0.0, 0.1], [1.0, -3.0]) == pytest.approx(0.025)
    assert crossing([0.0, 1.0], [0.0, -1.0]) == 0.0
    assert crossing([0.0, 1.0], [2.0, 1.0]) is None


def test_the_equivalent_is_where_the_difference_is_zero():
    sentence = equivalent_sentence(BASE, equivalent(120.0, 40.0, -40.0), 1000.0)
    assert sentence == (
        "spt would need about 1.5 more analysts to match the policy (95 % interval 1.12 to 1.88). The mean cycle time "
        "of spt is 8.000 h with the people of today, 6.667 h with one more, 5.333 h with two more; that of the policy "
        "is 6.000 h with the people of today. Of all kinds of people, one more analyst helps spt most. At 1,000 a "
        "person that is 1,125 to 1,875 for the length of an episode."
    )


def test_no_more_is_said_than_is_shown():
    assert "is not shown to be better than spt" in equivalent_sentence(BASE, equivalent(20.0, -40.0), 0.0)
    open_end = equivalent_sentence(BASE, equivalent(120.0, 40.0, -10.0), 1000.0)
    assert "1.2 or more)" in open_end
    assert "1,200 or more for" in open_end
    never = equivalent_sentence(BASE, equivalent(500.0, 400.0, 300.0, 10.0), 1000.0)
    assert never.startswith("spt would need more than 2 more analysts to match the policy. ")
    assert "At 1,000" not in never
    alone = equivalent_sentence(BASE, equivalent(120.0, 40.0, -40.0, what="Ann", members=1, kinds=30, tried=24), 0.0)
    assert "about 1.5 more people like Ann to match the policy" in alone
    assert "Of the 24 largest kinds of people, one more person like Ann helps spt most" in alone


def test_the_equivalent_in_cases():
    said = equivalent_sentence(BASE, equivalent(120.0, 40.0, -40.0, what="arrivals"), 0.0)
    assert said == (
        "spt would do as well as the policy if 7.5 % of the cases stayed away (95 % interval 5.62 to 9.38 %)."
    )
    assert "Even if 5 % of the cases" in equivalent_sentence(BASE, equivalent(120.0, 80.0, what="arrivals"), 0.0)


def test_scenarios_are_compared_episode_by_episode():
    other = played("arrivals +10%", trained=[6.0, 7.0, 8.0], spt=[9.0, 9.0, 12.0])
    verdict = across((other, "trained"), (BASE, "trained"))
    assert (verdict.word, verdict.difference, verdict.low, verdict.high) == ("worse", 60.0, 60.0, 60.0)
    lines = change_sentences(BASE, other, 5.0)
    assert lines[0] == "Something is different."
    assert lines[1].startswith("trained: 7 h against 6 h (as it is) mean cycle time, worse (+16.7 %,")
    assert len(lines) == 3  # no people more or less, so no cost


def test_policies_that_show_no_difference_share_a_line():
    other = played("arrivals +1%", trained=[5.0, 6.1, 6.9], spt=[7.2, 7.7, 10.3])
    said, line = change_sentences(BASE, other, 0.0)
    assert said == "Something is different."
    assert line.startswith("No difference shown for any of trained, spt; the widest interval is spt's: 8.4 h against")


def test_a_policy_that_cannot_play_is_compared_from_where_it_is():
    other = played("people +1 analyst", spt=[5.5, 7.0, 8.0])
    lines = change_sentences(BASE, other, 0.0)
    assert lines[-1].startswith("The policy, as it is, against spt with this change: 6 h against 6.833 h mean cycle")


def test_the_table_has_a_column_for_each_scenario():
    other = played("people +1 analyst", spt=[5.5, 7.0, 8.5])
    title, headers, rows = cells([BASE, other])
    assert title == "Mean cycle time, h: mean and 95 % interval over 3 episodes"
    assert headers == ["policy", "as it is", "people +1 analyst"]
    assert [row[0] for row in rows] == ["trained", "spt", "people"]
    assert rows[0][1:] == ["6.000 ± 2.5", "-"]
    assert rows[2][1:] == ["20", "20"]
    content = as_json([BASE, other], [equivalent(120.0, 40.0, -40.0)], {"as it is": ["said"]}, 3.0)
    assert content["scenarios"][1]["cost"] == 60.0
    assert content["scenarios"][1]["against_the_first"]["spt"]["difference"] == pytest.approx(-80.0)
    assert content["worth"][0]["amount"] == 1.5
