"""Sentences about the comparison: the effect of each change, and the policy's gain in people and cases."""

import math
from collections.abc import Callable, Sequence

from longstride.process.changes.people import people_at_work, people_like
from longstride.process.fidelity.base import NOT_JUDGED
from longstride.process.whatif.compare import TRAINED, Played, across
from longstride.process.whatif.equivalent import Equivalent, Step
from longstride.text import format_number, in_words, scale_of

_NUMBERS = ("", "one", "two", "three", "four", "five")


def change_sentences(base: Played, played: Played, cost: float, judged: bool = True) -> list[str]:
    """Return sentences about a change and its effect on each policy that both scenarios have.

    Args:
        base: the unchanged process.
        played: the changed process.
        cost: cost of one person for the length of an episode; 0 if unknown.
        judged: whether the base repeats its log, so that changes of it tell something.
    """
    lines = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in played.variant.changes]
    if not judged:
        return [*lines, NOT_JUDGED]
    lines += _of_each_policy(base, played)
    if TRAINED in base.result.records and TRAINED not in played.result.records and played.best:
        verdict = across((base, TRAINED), (played, played.best))
        if verdict is not None:
            lines.append(
                f"The policy, {base.variant.name}, against {played.best} with this change: "
                f"{verdict.means()}, {verdict.word} ({verdict.long})."
            )
    lines += _cost_lines(base, played, cost)
    return [*lines, *([played.not_reused] if played.not_reused else [])]


def _of_each_policy(base: Played, played: Played) -> list[str]:
    """Return a sentence for each policy; one for all where several show no difference and none shows one."""
    both = [name for name in played.result.records if name in base.result.records]
    verdicts = {name: v for name in both if (v := across((played, name), (base, name))) is not None}
    if len(verdicts) > 1 and all(verdict.word == "no difference shown" for verdict in verdicts.values()):
        widest = max(verdicts, key=lambda name: verdicts[name].high - verdicts[name].low)
        names, verdict = ", ".join(verdicts), verdicts[widest]
        means = verdict.means(base.variant.name)
        return [f"No difference shown for any of {names}; the widest interval is {widest}'s: {means} ({verdict.long})."]
    return [f"{name}: {v.means(base.variant.name)}, {v.word} ({v.long})." for name, v in verdicts.items()]


def _cost_lines(base: Played, played: Played, cost: float) -> list[str]:
    more = people_at_work(played.variant.scenario) - people_at_work(base.variant.scenario)
    if not cost or not more:
        return []
    who = f"{abs(more)} {'more' if more > 0 else 'fewer'} {'person' if abs(more) == 1 else 'people'}"
    return [f"Cost of {who}: {'+' if more > 0 else '-'}{format_number(abs(more) * cost)} for the length of an episode."]


def equivalent_sentence(base: Played, equivalent: Equivalent, cost: float) -> str:
    """Return a sentence about the policy's gain in people or in cases; it claims no more than the comparison shows."""
    if equivalent.steps[0].low <= 0.0:
        return (
            f"The policy is not shown to be better than {base.best} on the process as it is, so no equivalent "
            "in people or cases is given."
        )
    if equivalent.what == "arrivals":
        return _in_arrivals(base, equivalent)
    return f"{_in_people(base, equivalent)} {_tried(base, equivalent)}{_money(equivalent, cost)}"


def _in_people(base: Played, equivalent: Equivalent) -> str:
    if equivalent.amount is None:
        shown = _shown(equivalent.steps)
        return f"{base.best} would need more than {shown:.0f} more {_people(equivalent, shown)} to match the policy."
    people = f"{equivalent.amount:.2g} more {_people(equivalent, equivalent.amount)}"
    interval = _interval(equivalent, lambda amount: f"{amount:.3g}")
    return f"{base.best} would need about {people} to match the policy (95 % interval {interval})."


def _people(equivalent: Equivalent, amount: float) -> str:
    return people_like(equivalent.what, equivalent.members > 1, f"{amount:.2g}" == "1")


def _interval(equivalent: Equivalent, show: Callable[[float], str]) -> str:
    assert equivalent.low is not None  # never above the amount, which is known
    return (
        f"{show(equivalent.low)} to {show(equivalent.high)}"
        if equivalent.high is not None
        else f"{show(equivalent.low)} or more"
    )


def _shown(steps: Sequence[Step]) -> float:
    """Return the largest amount with which the heuristic is still significantly worse than the policy."""
    return max(step.amount for step in steps if step.low > 0.0)


def _tried(base: Played, equivalent: Equivalent) -> str:
    """Return sentences about the heuristic with whole numbers of more people, around the policy's equivalent."""
    simulator = base.simulator
    policy = base.mean(TRAINED)
    assert policy is not None  # it has been compared
    scale = scale_of(simulator.unit_of(simulator.main_metric), policy)
    near = equivalent.amount if equivalent.amount is not None else equivalent.steps[-1].amount
    shown = [s for s in equivalent.steps if s.amount in (math.floor(near), math.ceil(near)) or s is equivalent.steps[0]]
    parts = [f"{scale.show(s.mean)} {_with(int(s.amount))}" for s in shown]
    kinds = "all" if equivalent.tried == equivalent.kinds else f"the {equivalent.tried} largest"
    return (
        f"The {in_words(simulator.main_metric)} of {base.best} is {', '.join(parts)}; that of the policy is "
        f"{scale.show(policy)} with the people of today. Of {kinds} kinds of people, one more "
        f"{_people(equivalent, 1.0)} helps {base.best} most."
    )


def _with(number: int) -> str:
    return f"with {_NUMBERS[number]} more" if number else "with the people of today"


def _money(equivalent: Equivalent, cost: float) -> str:
    if not cost or equivalent.amount is None:
        return ""
    interval = _interval(equivalent, lambda amount: format_number(amount * cost))
    return f" At {format_number(cost)} a person that is {interval} for the length of an episode."


def _in_arrivals(base: Played, equivalent: Equivalent) -> str:
    if equivalent.amount is None:
        return (
            f"Even if {100 * equivalent.steps[-1].amount:.0f} % of the cases stayed away, {base.best} would not be "
            "shown to reach the policy."
        )
    return (
        f"{base.best} would do as well as the policy if {100 * equivalent.amount:.2g} % of the cases stayed away "
        f"(95 % interval {_interval(equivalent, lambda share: f'{100.0 * share:.3g}')} %)."
    )
