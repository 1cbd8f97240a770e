"""A log that a mined scenario writes: mined again, it shows what mining itself gets wrong."""

from dataclasses import replace

import numpy as np

from longstride.process.event_logs.event_log import EventLog, compact
from longstride.process.event_logs.pauses import no_pauses
from longstride.process.event_logs.reading.collect import Coded
from longstride.process.kernel.parameters import build_parameters
from longstride.process.mining.delays.play_logged import as_logged_record, play_logged
from longstride.process.scenario.at_once import slots_of, with_slots
from longstride.process.scenario.routing import build_routing
from longstride.process.scenario.scenario import Scenario

_HOUR = 3600.0
_LONGER = 4.0
"""Length of a simulation that ends all of its cases, as a multiple of the scenario's horizon."""


def simulated_log(scenario: Scenario, log: EventLog, seed: int) -> EventLog:
    """Return as many cases as a log has, as a scenario mined from it plays them under the logged habits.

    Like the log it has no events of cases that wait for their first start, unless the log records arrivals.
    """
    routing = build_routing(scenario.flow, scenario.activities)
    parameters, sizes = build_parameters(scenario, routing)
    record = as_logged_record(parameters)
    record["horizon"] = _LONGER * scenario.horizon.value
    begin = float(log.clock_start.min()) / _HOUR
    played = play_logged(record, parameters, sizes, seed, begin=begin, cases=len(log.cases))
    of_case = played.state.case_class
    if log.classes is not None:
        of_case = np.array([log.classes.names.index(name) for name in scenario.classes])[of_case]
    done = np.isfinite(played.end)
    order = np.flatnonzero(done)[np.lexsort((played.end[done], played.start[done]))]
    names, case = np.unique(played.case[order], return_inverse=True)
    activities = compact(Coded(list(scenario.activities), parameters.node_target[played.node[order]]))
    people = compact(_people(scenario, played.resource[order]))
    start, end = (_HOUR * times[order] / scenario.hour for times in (played.start, played.end))
    column = log.column
    if column is not None:  # each case has that of the first of its events
        first = np.unique(case, return_index=True)[1]
        column = replace(column, of_case=np.array(routing.value)[played.node[order[first]]])
    return replace(
        log,
        cases=tuple(map(str, names)),
        case=case,
        activities=tuple(activities.values),
        activity=activities.code,
        resources=tuple(people.values),
        resource=people.code,
        start=start,
        end=end,
        clock_start=start,
        clock_end=end,
        pauses=no_pauses(),
        column=column,
        classes=log.classes.with_cases(of_case[names]) if log.classes else None,
    )


def _people(scenario: Scenario, slot: np.ndarray) -> Coded:
    """Return the people of int64[n] slots, -1 for no person; the same where none does several tasks at once."""
    further = slots_of(scenario)
    names = [further.get(name, name) for name in with_slots(scenario).resources]
    people = list(dict.fromkeys(names))
    return Coded(people, np.array([*map(people.index, names), -1])[slot])
