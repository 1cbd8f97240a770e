"""Points of a front: the front against its definition, intervals against SciPy, weights, metrics and their refusals."""

import itertools
import json

import numpy as np
import pytest

pytest.importorskip("pydantic")
pytest.importorskip("scipy")

from scipy.stats import ttest_rel

from longstride.errors import UserError
from longstride.process.fidelity.base import NOT_JUDGED
from longstride.process.front.content import Front, as_json, cells, sentences
from longstride.process.front.page import build_page
from longstride.process.front.pair import SPAN, even_weight, mean_of, read_pair, read_weights, spread_weights
from longstride.process.front.points import Point, difference, front_of, is_shown_better, standings
from longstride.process.load import find_scenario
from longstride.process.read_aims import AimSettings, with_aims
from longstride.process.simulator import ProcessSimulator
from longstride.report.page import render

METRICS = "cost_per_case", "mean_cycle_time"
DESK = with_aims(find_scenario("loan_desk"), AimSettings(cost="40"))


def point(name, costs, times, kind="rule"):
    """Return a point from the costs and the times of its episodes, in hours."""
    records = [dict(zip(METRICS, (c, 60.0 * t), strict=True)) for c, t in zip(costs, times, strict=True)]
    return Point(name, kind, records)


def front(*points, judged=True):
    pair = read_pair(",".join(METRICS), DESK)
    return Front(points, METRICS, ProcessSimulator(pair.on(DESK)), points[0].name, 3, judged)


def by_definition(values):
    return [not any(b[0] <= a[0] and b[1] <= a[1] and (b[0] < a[0] or b[1] < a[1]) for b in values) for a in values]


def test_the_front_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    for count, levels in itertools.product((1, 2, 3, 7, 40), (2, 4, 1000)):  # few levels make ties
        for _ in range(40):
            values = [tuple(map(float, pair)) for pair in rng.integers(levels, size=(count, 2))]
            assert front_of(values) == by_definition(values)
    assert front_of([]) == []


def test_differences_are_paired_by_episode():
    rng = np.random.default_rng(1)
    noise = rng.normal(0.0, 10.0, 12)
    a = point("a", noise + 100.0, noise + 20.0)
    b = point("b", noise + 101.0 + rng.normal(0.0, 0.2, 12), noise + 20.0)
    found = difference(a, b, METRICS[0])
    costs = [[record[METRICS[0]] for record in each.records] for each in (a, b)]
    interval = ttest_rel(*costs).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert is_shown_better(a, b, METRICS), "cheaper, and as quick in every episode"
    assert not is_shown_better(b, a, METRICS)
    assert not is_shown_better(a, a, METRICS)


def test_a_point_is_dominated_only_if_that_is_shown():
    good = point("good", [10.0, 11.0, 12.0], [5.0, 6.0, 7.0])
    beaten = point("beaten", [11.0, 12.1, 13.0], [6.0, 7.1, 8.0])
    vague = point("vague", [9.0, 12.0, 15.0], [3.0, 7.0, 11.0])
    quick = point("quick", [20.0, 20.0, 20.0], [1.0, 1.0, 1.0])
    nothing = Point("nothing", "rule", [{}, {}, {}])
    found = standings([good, beaten, vague, quick, nothing], METRICS)
    assert {name: tuple(standing) for name, standing in found.items()} == {
        "good": ("front", ""),
        "beaten": ("dominated", "good"),
        "vague": ("behind", "good"),
        "quick": ("front", ""),
    }
    shown = front(good, beaten, vague, quick, nothing)
    headers, rows = cells(shown)
    assert headers[:4] == ["policy", "cost per case", "mean cycle time, h", "place"]
    assert [row[3] for row in rows] == [
        *("on the front", "dominated by good", "behind good, not shown", "on the front"),
        "without these metrics",
    ]
    assert rows[1][4] == "+9.39 ± 1.3 %"
    assert sentences(shown)[0] == "On the front, by cost per case: good, quick."
    content = json.loads(json.dumps(as_json(shown)))
    assert content["points"][1]["behind"] == "good"
    assert content["points"][1]["against_the_reference"]["mean_cycle_time"]["difference"] == pytest.approx(62.0)
    assert content["points"][0]["per_episode"]["cost_per_case"] == [10.0, 11.0, 12.0]


def test_a_point_that_leaves_work_undone_is_named():
    def leaving(name, open_cases):
        records = point(name, [10.0, 11.0, 12.0], [5.0, 6.0, 7.0]).records
        return Point(name, "rule", [{**r, "cases_open": n} for r, n in zip(records, open_cases, strict=True)])

    usual, more, idle = (
        leaving(*each) for each in (("usual", [3, 4, 5]), ("more", [6, 7, 8]), ("idle", [90, 110, 100]))
    )
    assert sentences(front(usual, more, idle))[-1] == (
        "Cases open at the end, 4.00 with usual: idle 100. Work that is not done costs nothing, so they look too cheap."
    )
    assert len(sentences(front(usual, more))) == 1, "less than twice as many"
    unclear = leaving("unclear", [0, 0, 90])
    assert len(sentences(front(usual, unclear))) == 1, "not shown"


def test_nothing_is_judged_where_the_simulation_misses_its_log():
    shown = front(
        point("a", [1.0, 1.1, 1.0], [1.0, 1.0, 1.1]), point("b", [2.0, 2.1, 2.0], [2.0, 2.0, 2.1]), judged=False
    )
    assert sentences(shown) == [NOT_JUDGED]
    assert {row[3] for row in cells(shown)[1]} == {"-"}
    assert as_json(shown)["points"][1]["place"] is None


def test_names_of_users_are_text_on_the_page():
    html5lib = pytest.importorskip("html5lib")
    pytest.importorskip("matplotlib")
    name = '<script>"x"</script> $\\frac$ & \x1b[31m'
    shown = front(point("a", [1.0, 1.1], [1.0, 1.0]), point(name, [0.5, 0.4], [2.0, 2.0]))
    page = render(build_page(f"Front of {name}", "points", shown, sentences(shown), [f"longstride {name}"]))
    html5lib.HTMLParser(strict=True).parse(page)
    assert "<script>" not in page.split("<body")[1].replace("&lt;script&gt;", "")
    assert "could not be drawn" not in page
    assert "<svg" in page


def test_weights_spread_around_the_even_one():
    assert spread_weights(2.0, 1) == [2.0]
    assert spread_weights(2.0, 3) == [2.0, 2.0 / SPAN, 2.0 * SPAN]
    assert spread_weights(1.0, 5) == [1.0, 0.0625, 16.0, 0.25, 4.0]
    for count in range(1, 12):
        weights = spread_weights(3.0, count)
        assert len(set(weights)) == count
        ratios = np.diff(np.log(sorted(weights)))
        assert np.allclose(ratios, ratios[:1], rtol=0.02)
    assert read_weights("0.5, 2,8") == [0.5, 2.0, 8.0]
    for wrong in ("", "1,x", "1,1", "0,1", "-1", "inf"):
        with pytest.raises(UserError, match="expected different numbers above 0"):
            read_weights(wrong)


def test_the_even_weight_counts_hours():
    pair = read_pair("cost_per_case,mean_cycle_time", DESK)
    records = [{"cost_per_case": 90.0, "mean_cycle_time": 180.0}, {"cost_per_case": 110.0, "mean_cycle_time": 420.0}]
    assert even_weight(pair, DESK, records) == pytest.approx(100.0 / 5.0)  # the desk counts minutes
    late = with_aims(DESK, AimSettings(due="2 days"))
    punctual = read_pair("cost_per_case,mean_tardiness", late)
    assert even_weight(punctual, late, [{"cost_per_case": 90.0, "mean_tardiness": 0.0}] * 2) == 1.0


def test_a_metric_without_a_value_in_any_episode_is_refused():
    """Where every due date is after the end, no share of late cases exists."""
    late = with_aims(DESK, AimSettings(due="1000 weeks", cost="40"))
    pair = read_pair("cost_per_case,share_late", late)
    with pytest.raises(UserError, match="no episode has a value of share_late; name another metric, or a due date"):
        even_weight(pair, late, [{"cost_per_case": 90.0}] * 2)
    assert mean_of([{"share_late": 0.2}, {}, {"share_late": 0.4}], "share_late") == pytest.approx(0.3)


def test_metrics_that_cannot_be_traded_are_refused():
    plain = find_scenario("loan_desk")
    for text, scenario, words in (
        ("cost_per_case", DESK, "expected two metrics"),
        ("cost_per_case,speed", DESK, "'speed' is not a metric of a process"),
        ("cost_per_case,mean_cycle_time", plain, "cost_per_case needs costs of the process; add --cost 40"),
        ("cost_per_case,share_late", DESK, "share_late needs due of the process; add --due '5 days'"),
        ("cost_per_case,share_beyond_target", DESK, "needs a promise; add --target"),
        ("mean_cycle_time,p95_cycle_time", DESK, "both about cycle_time"),
    ):
        with pytest.raises(UserError, match=words):
            read_pair(text, scenario)
    pair = read_pair("p95_cycle_time,handovers_per_case", plain)
    assert pair.objective(3.0) == {"cycle_time": 1.0, "handovers": 3.0}
    names = ProcessSimulator(pair.on(plain)).metrics_dtype.names
    assert {*pair.metrics} <= {*names}
