"""The work of a system next to that of people, in a log and in the simulation of its scenario."""

from datetime import datetime, timedelta

import pytest

from longstride.process.event_logs.event_log import read_event_log
from longstride.process.fidelity.fidelity import fidelity_report
from longstride.process.mining.mine_scenario import mine_scenario
from longstride.process.simulator import ProcessSimulator


def test_what_a_system_does_is_nobodys_work(tmp_path):
    """A system records half an hour at each hour of six days; a person then works for 15 minutes on each case."""
    lines = ["case_id,activity,resource,start_time,end_time"]
    for hour in range(6 * 24):
        begin = datetime(2024, 3, 4) + timedelta(hours=hour)
        done = begin + timedelta(minutes=30)
        lines.append(f"{hour},Check,SYS,{begin},{done}")
        lines.append(f"{hour},Decide,Ann{hour % 4},{done},{done + timedelta(minutes=15)}")
    file = tmp_path / "log.csv"
    file.write_text("\n".join(lines) + "\n")
    log = read_event_log(file)
    scenario = mine_scenario(log, name="t", calibrate=False).scenario
    assert [entry.activity for entry in scenario.automatic] == ["Check"]
    work = fidelity_report(log, ProcessSimulator(scenario), episodes=1).hours_a_case
    assert work.logged == pytest.approx(0.25)
    assert work.simulated == pytest.approx(0.25, rel=0.05)
