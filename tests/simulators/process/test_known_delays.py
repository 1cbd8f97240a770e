"""Delays that a generated log has are mined back; none are found where there are none."""

import pytest
from helpers.generated_logs import DELAY, SERVICE, two_tasks

from core.simulators.process.event_logs.mine_scenario import mine_scenario


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
def test_known_delays_are_mined_back(load):
    made = two_tasks(load, True, 2000, 4)
    found = mine_scenario(made.log, name="t").scenario.waiting
    assert made.rest == pytest.approx(DELAY, rel=0.05)
    assert found.world_at_least < made.rest
    assert found.world == pytest.approx(made.rest, rel=0.12 if load > 0.9 else 0.05)
    assert found.waiting - found.world == pytest.approx(made.people, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_no_delays_are_found_where_there_are_none(load):
    made = two_tasks(load, False, 600, 3)
    found = mine_scenario(made.log, name="t").scenario.waiting
    assert found.waiting == pytest.approx(made.people, rel=0.01) and found.waiting > 0.3 * SERVICE
    assert found.world_at_least < 0.02 * found.waiting and found.world < 0.02 * found.waiting
