import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from longstride.errors import UserError
from longstride.process.event_logs.event_log import read_event_log
from longstride.process.kernel.parameters import build_parameters
from longstride.process.kernel.service_times import table_mean
from longstride.process.mining.arrivals.mine_arrivals import touched_hours
from longstride.process.mining.delays.waits import free_times
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.mining.mine_services import choose_pairs, service_distribution
from longstride.process.mining.working_hours import (
    HOUR,
    divided_time,
    find_open_hours,
    open_time,
    weeks_seen,
    worked_time,
)
from longstride.process.scenario_file import load_scenario, scenario_content

PUBLIC_LOGS = Path(__file__).resolve().parents[3] / "shared" / "event_logs"
SAMPLE = Path(__file__).resolve().parents[2] / "src/core/longstride/process/logs/loan_desk_sample.csv"
MONDAY = datetime(2024, 3, 4)


def log_of(tmp_path, rows):
    """Read rows of (case, activity, resource, start, end), times in hours since the Monday."""
    path = tmp_path / "log.csv"
    lines = ["case_id,activity,resource,start_time,end_time"]
    for case, activity, resource, start, end in rows:
        times = ",".join((MONDAY + timedelta(hours=float(t))).isoformat() for t in (start, end))
        lines.append(f"{case},{activity},{resource},{times}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_event_log(path)


def test_cases_keep_their_order_and_their_delays(tmp_path):
    # a: X, then Y two hours later; b: X twice at once, so both begin with the case.
    rows = [("a", "Y", "Ann", 12, 13), ("a", "X", "Ann", 9, 10), ("b", "X", "Ann", 9, 9.5), ("b", "X", "Bob", 9, 9.7)]
    flow = mine_scenario(log_of(tmp_path, rows), name="t").scenario.flow
    b, a = ([{**task} for task in case["tasks"]] for case in flow["cases"])
    assert [task["task"] for task in a] == ["X", "Y"] and a[1]["delay"] > 0 and "after" not in a[1]
    assert [task["task"] for task in b] == ["X", "X"] and b[1]["after"] == []


def test_exposure_of_each_hour_of_the_week():
    # From Tuesday 10:30 (34.5) a week and two hours on: three hours are touched twice.
    exposure = np.bincount(touched_hours(34.5, 34.5 + 168 + 2) % 168, minlength=168)
    np.testing.assert_array_equal(np.flatnonzero(exposure == 2), [34, 35, 36])
    assert exposure.sum() == 171 and exposure.min() == 1


def test_weekly_rates_divide_by_exposure_and_replay_keeps_the_times(tmp_path):
    # Three weeks; a case each Monday 9:xx, and a second one in the first week.
    starts = [9.25, 9.5, 168 + 9.5, 336 + 9.5]
    log = log_of(tmp_path, [(i, "X", "Ann", t, t + 1) for i, t in enumerate(starts)])
    rates = mine_scenario(log, name="t").scenario.arrivals.rates
    assert rates[9] == pytest.approx(4 / 3, rel=1e-5) and sum(rates) == pytest.approx(4 / 3, rel=1e-5)
    assert mine_scenario(log, name="t", arrivals="replay").scenario.arrivals.times == pytest.approx(starts)


def test_open_time_counts_open_hours_only():
    open_hours = np.zeros(168, bool)
    open_hours[9:17] = True
    clock = np.array([8.0, 10.5, 20.0, 168 + 9.5]) * HOUR
    np.testing.assert_allclose(open_time(open_hours, clock), [0, 1.5, 8, 8.5])


def test_open_hours_reach_between_starts_and_ends_but_not_over_night(tmp_path):
    # Shifts of eight hours, Monday to Friday, as one record each; and one record over the weekend.
    rows = [(i, "X", "Ann", 24 * i + 6, 24 * i + 14) for i in range(5)] + [(9, "X", "Bob", 4 * 24 + 13.5, 7 * 24 + 7.5)]
    work = worked_time(log_of(tmp_path, rows))
    expected = np.zeros((7, 24), bool)
    expected[:5, 6:15], expected[0, 7] = True, True
    np.testing.assert_array_equal(work.open_hours.reshape(7, 24), expected)
    np.testing.assert_allclose(work.hours, [8, 8, 8, 8, 8, 1.5 + 1.5])


def test_records_at_once_share_the_time():
    always = np.ones(168, bool)
    # [0, 4] and [2, 6] overlap for two hours; [8, 8] takes none.
    hours = divided_time(always, np.array([0.0, 2, 8]) * HOUR, np.array([4.0, 6, 8]) * HOUR)
    np.testing.assert_allclose(hours, [3, 3, 0])


def test_weeks_seen_counts_hours_begun_in_or_filled_and_short_gaps():
    # Monday 9:30-11:10 (not 11:00-12:00, where it only ends), 14:00-15:00 after a gap of three hours; next Monday 9-12.
    start, end = np.array([9.5, 14.0, 177.0]) * HOUR, np.array([11 + 1 / 6, 15.0, 180.0]) * HOUR
    seen = weeks_seen(start, end)
    assert dict(enumerate(seen[8:16].tolist(), 8)) == {8: 0, 9: 2, 10: 2, 11: 1, 12: 0, 13: 0, 14: 1, 15: 0}
    # A gap of two hours is filled.
    assert weeks_seen(np.array([9.0, 12.0]) * HOUR, np.array([10.0, 13.0]) * HOUR)[8:14].tolist() == [0, 1, 1, 1, 1, 0]


def test_quantiles_keep_the_mean_even_of_long_tails():
    rng = np.random.default_rng(0)
    for hours in (rng.lognormal(0, 2, 500), rng.exponential(1, 20), np.full(30, 0.25), np.r_[np.zeros(99), 5.0]):
        quantiles = service_distribution(hours)["quantiles"]
        assert table_mean(np.array(quantiles)) == pytest.approx(hours.mean(), rel=1e-4)
        assert quantiles == sorted(quantiles) and quantiles[0] >= 0
    assert service_distribution(np.zeros(3)) == {"distribution": "constant", "mean": 1 / 3600}


def test_rare_pairs_go_unless_they_carry_the_log(tmp_path):
    rows = [(i, "X", "Ann", i, i + 0.5) for i in range(40)]
    rows += [(100 + i, "X", "Bob", i, i + 0.5) for i in range(2)] + [(200, "Y", "Cleo", 50, 51)]
    log = log_of(tmp_path, rows)
    pairs, notes = choose_pairs(log)
    kept = {(log.activities[a], log.resources[r]) for a, r, _ in zip(*pairs, strict=True)}
    assert kept == {("X", "Ann"), ("Y", "Cleo")}
    assert "seen at least 5 times" in notes[0] and "95.3%" in notes[0] and "left out: Bob" in notes[1]
    few = log_of(tmp_path, [(i, "X", name, i, i + 0.5) for i, name in enumerate(["Ann", "Bob", "Cleo"] * 3)])
    assert len(choose_pairs(few)[0].activity) == 3


def test_who_does_only_what_needs_nobody_is_not_called_rare(tmp_path):
    rows = [(i, "Check", "Ann", i, i + 0.5) for i in range(9)] + [(i, "Mail", "Robot", i + 1, i + 1) for i in range(9)]
    _, notes = choose_pairs(log_of(tmp_path, rows), np.array([False, True]))
    assert notes[1:] == ["Resources that do only automatic activities are left out: Robot."]


def test_a_daily_break_is_no_free_time_that_proves_a_wait_to_be_external():
    """A clerk is busy from 9 to 12 and from 13 to 17 each day, at times a little longer, and idle one afternoon."""
    days = 24 * HOUR * np.arange(5.0)
    start = np.concatenate([days + 9 * HOUR, days + 13 * HOUR, days[[1]] + 16 * HOUR])
    end = np.concatenate([days + 12.2 * HOUR, days + 17.2 * HOUR, days[[1]] + 17 * HOUR])
    end[6] = days[1] + 14.5 * HOUR
    free = free_times(start, end, np.ones(168, np.bool_))
    np.testing.assert_allclose(free, [[days[1] + 14.5 * HOUR, days[1] + 16 * HOUR]])


def test_an_activity_without_any_name_is_done_by_all(tmp_path):
    rows = [(i, "X", name, 9 + 24 * i, 10 + 24 * i) for i, name in enumerate(["Ann", "Bob"] * 5)]
    mined = mine_scenario(log_of(tmp_path, [*rows, (0, "Z", "", 12, 13)]), name="t")
    assert {s.resource for s in mined.scenario.service if s.activity == "Z"} == {"Ann", "Bob"}
    assert any("never says who did Z" in note for note in mined.notes)
    assert any("name no resource" in note for note in mined.notes)


def test_service_times_have_the_pair_own_shape_from_twenty_events_on_and_the_mean_of_the_evidence(tmp_path):
    rows = [(i, "X", "Ann", 9 + 168 * i, 10 + 168 * i) for i in range(20)]
    rows += [(50 + i, "X", "Bob", 9 + 168 * i, 12 + 168 * i) for i in range(19)]
    services = {s.resource: s for s in mine_scenario(log_of(tmp_path, rows), name="t").scenario.service}
    assert set(services["Ann"].quantiles) == {1.0} and services["Ann"].observations == 20
    # Nothing varies within a person, so their difference is not chance; the shape of Bob's times is that of all.
    assert table_mean(np.array(services["Bob"].quantiles)) == pytest.approx(3, rel=1e-4)
    assert len(set(services["Bob"].quantiles)) > 1


def test_a_process_with_known_parameters_is_recovered(tmp_path):
    rng = np.random.default_rng(1)
    rows, weeks, rate = [], 60, 1.5
    for day in (d for d in range(7 * weeks) if d % 7 < 5):
        for case in range(rng.poisson(rate * 8)):
            time, activity = 24 * day + 9 + 8 * rng.random(), "A"
            while activity:
                who = rng.choice(["Ann", "Bob"], p=[0.7, 0.3])
                hours = rng.exponential({"Ann": 0.01, "Bob": 0.02}[who])
                rows.append((f"{day}.{case}", activity, who, time, time + hours))
                time += hours
                activity = "B" if activity == "A" and rng.random() < 0.6 else None
    scenario = mine_scenario(log_of(tmp_path, rows), name="t", calibrate=False).scenario
    rates = np.array(scenario.arrivals.rates).reshape(7, 24)
    np.testing.assert_allclose(rates[:5, 9:17].mean(), rate, rtol=0.03)
    assert rates.sum() == pytest.approx(rates[:5, 9:17].sum())
    twice = [case["tasks"][-1]["task"] == "B" for case in scenario.flow["cases"]]
    assert np.mean(twice) == pytest.approx(0.6, abs=0.02)
    services = {(s.activity, s.resource): s for s in scenario.service}
    for who, mean, share in (("Ann", 0.01, 0.7), ("Bob", 0.02, 0.3)):
        # Bob's work can overlap that of the next case, which divides the time.
        assert table_mean(np.array(services["A", who].quantiles)) == pytest.approx(mean, rel=0.1)
        total = services["A", "Ann"].observations + services["A", "Bob"].observations
        assert services["A", who].observations / total == pytest.approx(share, abs=0.02)
    for plans in scenario.rosters.values():
        assert plans and all(h[:5] >= "09:00" and h[6:] <= "18:00" for plan in plans for h in plan.hours)


def test_what_cannot_be_learned_from_is_refused(tmp_path):
    log = log_of(tmp_path, [("a", "X", "Ann", 9, 9), ("b", "X", "Ann", 9, 9)])
    with pytest.raises(UserError, match="all events happen at one moment"):
        mine_scenario(log, name="t")
    log = log_of(tmp_path, [("a", "X", "Ann", 9, 10), ("b", "X", "Ann", 9, 9)])
    with pytest.raises(UserError, match="expected weekly or replay, not 'poisson'"):
        mine_scenario(log, name="t", arrivals="poisson")


@pytest.mark.parametrize("arrivals", ["weekly", "replay"])
@pytest.mark.parametrize("name", ["sample", "bpic2012_w", "production", "loanapp_synthetic"])
def test_a_mined_scenario_is_a_file_that_loads_and_carries_its_load(tmp_path, name, arrivals):
    path = SAMPLE if name == "sample" else PUBLIC_LOGS / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"the public log {name} is not here")
    log = read_event_log(path)
    scenario, notes = mine_scenario(log, name=name, arrivals=arrivals, calibrate=False)
    (tmp_path / "mined.json").write_text(json.dumps(scenario_content(scenario)))
    assert load_scenario(tmp_path / "mined.json") == scenario
    assert all(note.endswith(".") for note in notes)
    _, sizes = build_parameters(scenario)
    # Rates are higher than the log's mean where its end lacks cases.
    assert 0.88 * len(log.cases) < sizes.expected_cases < 1.4 * len(log.cases)
    hours = sum(p.p * len(p.days) * p.mask().bit_count() for plans in scenario.rosters.values() for p in plans)
    work = worked_time(log).hours.sum() * sizes.expected_cases / len(log.cases)
    assert work < hours * scenario.horizon.value / 168


@pytest.mark.parametrize("last", [24.0, 33.0, 168.0], ids=["midnight", "nine o'clock", "the week's end"])
def test_an_instant_event_on_the_last_full_hour_is_mined(tmp_path, last):
    rows = [(i, "X", "Ann", 9 + i, 9.5 + i) for i in range(5)]
    rates = mine_scenario(log_of(tmp_path, [*rows, (9, "X", "Ann", last, last)]), name="t").scenario.arrivals.rates
    later = mine_scenario(log_of(tmp_path, [*rows, (9, "X", "Ann", last, last + 1 / 60)]), name="t").scenario
    assert rates == later.arrivals.rates and sum(rates) == pytest.approx(6.0, rel=1e-5)


def test_a_log_without_waiting_has_no_shares_of_it(tmp_path):
    tasks = [(c, a, 9 + 1.7 * c + t / 3) for c in range(3) for t, a in enumerate("XYZ")]
    rows = [(c, a, "Ann" if a == "X" else "Bob", start, start + 1 / 3) for c, a, start in tasks]
    notes = mine_scenario(log_of(tmp_path, rows), name="t").notes
    (waiting,) = [note for note in notes if note.startswith("Waiting:")]
    assert "%" not in waiting and waiting.startswith("Waiting: none.")


def test_events_that_nobody_does_open_no_hours(tmp_path):
    # Submitted at any hour; Ann works from 9 to 17 on weekdays, and tasks rest over night.
    rng, rows = np.random.default_rng(1), []
    for case, day in enumerate(d for week in range(8) for d in range(7 * week, 7 * week + 4)):
        submitted, begun = 24 * day + rng.uniform(0, 24), 24 * (day + 1) + 10 + rng.uniform(0, 6)
        late = begun % 24 > 15  # two hours of work, which go on at nine if they reach 17:00
        rows.append((case, "Submit", "", submitted, submitted))
        rows.append((case, "Check", "Ann", begun, begun + 2 + (16 if late else 0)))
    log = log_of(tmp_path, rows)
    hours = np.flatnonzero(find_open_hours(log)) % 24
    assert hours.min() >= 9 and hours.max() < 17
    assert np.median(worked_time(log).hours[log.resource >= 0]) == pytest.approx(2.0)
    assert worked_time(log).hours.max() < 2.2
