"""What a manager reads of several scenarios: what each change brings, and what the policy is worth in people."""

import math
from collections.abc import Callable, Sequence

from longstride.process.changes.people import people_at_work, people_like
from longstride.process.whatif.compare import TRAINED, Played, across
from longstride.process.whatif.worth import Step, Worth
from longstride.text import format_number, in_words, scale_of

_NUMBERS = ("", "one", "two", "three", "four", "five")


def change_sentences(base: Played, played: Played, cost: float) -> list[str]:
    """Return what was changed, and what it brings each policy that both scenarios have.

    Args:
        base: the process as it is.
        played: the changed one.
        cost: of one person for the length of an episode; 0 where it is not known.
    """
    lines = [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in played.variant.changes]
    both = [name for name in played.result.records if name in base.result.records]
    for name in both:
        verdict = across((played, name), (base, name))
        if verdict is not None:
            lines.append(f"{name}: {verdict.means(base.variant.name)}, {verdict.word} ({verdict.long}).")
    if TRAINED in base.result.records and TRAINED not in played.result.records and played.best:
        verdict = across((base, TRAINED), (played, played.best))
        if verdict is not None:
            lines.append(
                f"The policy, {base.variant.name}, against {played.best} with this change: "
                f"{verdict.means()}, {verdict.word} ({verdict.long})."
            )
    lines += _cost_lines(base, played, cost)
    return [*lines, *([played.not_reused] if played.not_reused else [])]


def _cost_lines(base: Played, played: Played, cost: float) -> list[str]:
    more = people_at_work(played.variant.scenario) - people_at_work(base.variant.scenario)
    if not cost or not more:
        return []
    who = f"{abs(more)} {'more' if more > 0 else 'fewer'} {'person' if abs(more) == 1 else 'people'}"
    return [f"Cost of {who}: {'+' if more > 0 else '-'}{format_number(abs(more) * cost)} for the length of an episode."]


def worth_sentence(base: Played, worth: Worth, cost: float) -> str:
    """Return what the policy is worth, in people or in cases that stay away; no more than the comparison shows."""
    if worth.steps[0].low <= 0.0:
        return (
            f"The policy is not shown to be better than {base.best} on the process as it is, so nothing says that it "
            f"is worth {'a person' if worth.what != 'arrivals' else 'any cases'}."
        )
    if worth.what == "arrivals":
        return _in_arrivals(base, worth)
    return f"{_in_people(base, worth)} {_tried(base, worth)}{_money(worth, cost)}"


def _in_people(base: Played, worth: Worth) -> str:
    if worth.amount is None:
        shown = _shown(worth.steps)
        return f"The policy is worth more than {shown:.0f} {_people(worth, shown)} to {base.best}."
    about = f"The policy is worth about {worth.amount:.2g} {_people(worth, worth.amount)} to {base.best}"
    return f"{about} (95 % interval {_interval(worth, lambda amount: f'{amount:.3g}')})."


def _people(worth: Worth, amount: float) -> str:
    return people_like(worth.what, worth.members > 1, f"{amount:.2g}" == "1")


def _interval(worth: Worth, show: Callable[[float], str]) -> str:
    assert worth.low is not None  # never above the amount, which is known
    return f"{show(worth.low)} to {show(worth.high)}" if worth.high is not None else f"{show(worth.low)} or more"


def _shown(steps: Sequence[Step]) -> float:
    """Return the largest amount with which the heuristic is still shown to be worse than the policy."""
    return max(step.amount for step in steps if step.low > 0.0)


def _tried(base: Played, worth: Worth) -> str:
    """Return what the heuristic does with whole people more, around the policy's worth."""
    simulator = base.simulator
    policy = base.mean(TRAINED)
    assert policy is not None  # it has been compared
    scale = scale_of(simulator.unit_of(simulator.main_metric), policy)
    near = worth.amount if worth.amount is not None else worth.steps[-1].amount
    shown = [s for s in worth.steps if s.amount in (math.floor(near), math.ceil(near)) or s is worth.steps[0]]
    parts = [f"{scale.show(s.mean)} {_with(int(s.amount))}" for s in shown]
    kinds = "all" if worth.tried == worth.kinds else f"the {worth.tried} largest"
    return (
        f"The {in_words(simulator.main_metric)} of {base.best} is {', '.join(parts)}; that of the policy is "
        f"{scale.show(policy)} with the people of today. Of {kinds} kinds of people, one more {_people(worth, 1.0)} "
        f"helps {base.best} most."
    )


def _with(number: int) -> str:
    return f"with {_NUMBERS[number]} more" if number else "with the people of today"


def _money(worth: Worth, cost: float) -> str:
    if not cost or worth.amount is None:
        return ""
    interval = _interval(worth, lambda amount: format_number(amount * cost))
    return f" At {format_number(cost)} a person that is {interval} for the length of an episode."


def _in_arrivals(base: Played, worth: Worth) -> str:
    if worth.amount is None:
        return (
            f"Even if {100 * worth.steps[-1].amount:.0f} % of the cases stayed away, {base.best} would not be shown to "
            "reach the policy."
        )
    return (
        f"{base.best} would do as well as the policy if {100 * worth.amount:.2g} % of the cases stayed away "
        f"(95 % interval {_interval(worth, lambda share: f'{100.0 * share:.3g}')} %)."
    )
