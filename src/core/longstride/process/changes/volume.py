"""Changes of arrivals, service times and skills in a scenario's content."""

from collections.abc import Sequence
from typing import Any

from longstride.errors import UserError, suggestion
from longstride.process.changes.people import typical
from longstride.process.kernel.arrivals import expected_cases
from longstride.process.scenario.scenario import Scenario

_TIMES = ("mean", "low", "high")


def change_arrivals(content: dict[str, Any], scenario: Scenario, percent: float) -> str:
    """Multiply the rate of arrivals; return a sentence about it.

    Raises:
        UserError: arrivals are replayed, or none would be left.
    """
    factor, arrivals = _factor(percent, "arrivals"), content["arrivals"]
    if "times" in arrivals:
        raise UserError(
            "arrivals: this scenario replays the times of its log, which have no rate to change; mine it with "
            "LOG_ARRIVALS = weekly."
        )
    if "rates" in arrivals:
        arrivals["rates"] = [rate * factor for rate in arrivals["rates"]]
    else:
        arrivals["rate"] *= factor
    before = expected_cases(scenario)
    word = "more" if percent > 0 else "fewer"
    share = f"{abs(percent):g} % {word} cases arrive"
    return f"{share}: about {before * factor:,.0f} an episode in place of {before:,.0f}"


def change_times(content: dict[str, Any], scenario: Scenario, percent: float, activity: str) -> str:
    """Multiply the service times of one activity, or of all (``everything``); return a sentence about it.

    Raises:
        UserError: the activity needs no person, or no time would be left.
    """
    factor = _factor(percent, "times")
    every = activity.lower() in ("everything", "all")
    one = "" if every else find_activity(scenario, activity)
    entries = [entry for entry in content["service"] if every or entry["activity"] == one]
    if not entries:
        raise UserError(f"{one!r} has no service times, because it needs no person.")
    for entry in entries:
        entry |= {name: entry[name] * factor for name in _TIMES if name in entry}
        if "quantiles" in entry:
            entry["quantiles"] = [time * factor for time in entry["quantiles"]]
    what = repr(one) if one else "every activity that needs a person" if scenario.automatic else "every activity"
    return f"{what} takes {abs(percent):g} % {'more' if percent > 0 else 'less'} time for every person"


def teach(content: dict[str, Any], scenario: Scenario, names: Sequence[str], activity: str) -> str:
    """Let some people do an activity as fast as the typical person who can; return a sentence about it.

    Raises:
        UserError: all of them can do it already.
    """
    activity = find_activity(scenario, activity)
    able = [entry.resource for entry in scenario.service if entry.activity == activity]
    new = [name for name in names if name not in able]
    if not new or not able:
        why = "it needs no person" if not able else f"{', '.join(names)} can do it already"
        raise UserError(f"{activity!r} cannot be learned: {why}.")
    like = typical(scenario, able)
    entry = next(e for e in content["service"] if (e["activity"], e["resource"]) == (activity, like))
    content["service"] += [{**entry, "resource": name} for name in new]
    return f"{', '.join(map(repr, new))} can do {activity!r} too, as fast as {like!r}"


def find_activity(scenario: Scenario, words: str) -> str:
    """Return the activity that a name, or a part of a name, refers to.

    Raises:
        UserError: no activity matches, or several do.
    """
    wanted = words.strip().lower()
    found = [name for name in scenario.activities if name.strip().lower() == wanted]
    wanted = wanted.strip("'\"")
    found = found or [name for name in scenario.activities if name.strip().lower() == wanted]
    found = found or [name for name in scenario.activities if wanted in name.lower()]
    if len(found) > 1:
        raise UserError(f"{words!r} may be {', '.join(found[:12])}; name one of them.")
    if not found:
        ending = suggestion(wanted, scenario.activities, f"there are {', '.join(scenario.activities[:12])}")
        raise UserError(f"{words!r} is not an activity of scenario {scenario.name}{ending}")
    return found[0]


def _factor(percent: float, what: str) -> float:
    if percent == 0.0:
        raise UserError(f"{what} {percent:+g}%: nothing would change.")
    if percent <= -100.0:
        raise UserError(f"{what} {percent:+g}%: nothing would be left; take away less than 100%.")
    return 1.0 + percent / 100.0
