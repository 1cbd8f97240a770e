"""What a manager reads of several scenarios: what each change brings, and what the policy is worth in people."""

import math
from collections.abc import Sequence

from core.simulators.process.changes.people import people_at_work
from core.simulators.process.simulator import ProcessSimulator
from core.text import format_number, in_words, scale_of
from core.training.evaluation.comparison import Verdict
from core.training.evaluation.whatif.compare import TRAINED, Played, across
from core.training.evaluation.whatif.worth import Step, Worth

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
            lines.append(f"{name}: {_against(played.simulator, verdict, base.variant.name)}")
    if TRAINED in base.result.records and TRAINED not in played.result.records and played.best:
        verdict = across((base, TRAINED), (played, played.best))
        if verdict is not None:
            lines.append(
                f"The policy, {base.variant.name}, against {played.best} with this change: "
                f"{_against(base.simulator, verdict, '')}"
            )
    lines += _cost_lines(base, played, cost)
    return [*lines, *([played.not_reused] if played.not_reused else [])]


def _against(simulator: ProcessSimulator, verdict: Verdict, name: str) -> str:
    scale = scale_of(verdict.unit, verdict.other)
    value, other = (f"{number * scale.factor:,.4g}" for number in (verdict.value, verdict.other))
    of = f" ({name})" if name else ""
    return (
        f"{value}{scale.suffix} against {other}{scale.suffix}{of} {in_words(verdict.metric)}, {verdict.word} "
        f"({verdict.long})."
    )


def _cost_lines(base: Played, played: Played, cost: float) -> list[str]:
    more = people_at_work(played.variant.scenario) - people_at_work(base.variant.scenario)
    if not cost or not more:
        return []
    who = f"{abs(more)} {'person' if abs(more) == 1 else 'people'} {'more' if more > 0 else 'less'}"
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
        return f"The policy is worth more than {shown:.0f} {_plural(worth.what, shown)} to {base.best}."
    about = f"The policy is worth about {worth.amount:.2g} {_plural(worth.what, worth.amount)} to {base.best}"
    return f"{about} (95 % interval {_interval(worth, 1.0)})."


def _plural(what: str, amount: float) -> str:
    one = f"{amount:.2g}" == "1"
    if not what.isalpha():
        return f"person like {what}" if one else f"people like {what}"
    return what if one else f"{what}s"


def _interval(worth: Worth, factor: float) -> str:
    low = "0" if worth.low is None else f"{factor * worth.low:.3g}"
    return f"{low} to {factor * worth.high:.3g}" if worth.high is not None else f"{low} or more"


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
    return (
        f"The {in_words(simulator.main_metric)} of {base.best} is {', '.join(parts)}; that of the policy is "
        f"{scale.show(policy)} with the people of today. Of all kinds of people, {_like(worth.what)} helps {base.best} "
        "most."
    )


def _with(number: int) -> str:
    return f"with {_NUMBERS[number]} more" if number else "with the people of today"


def _like(what: str) -> str:
    return f"one more {what}" if what.isalpha() else f"one more person like {what}"


def _money(worth: Worth, cost: float) -> str:
    if not cost or worth.amount is None:
        return ""
    low = 0.0 if worth.low is None else worth.low * cost
    most = f" to {format_number(worth.high * cost)}" if worth.high is not None else " or more"
    return f" At {format_number(cost)} a person that is {format_number(low)}{most} for the length of an episode."


def _in_arrivals(base: Played, worth: Worth) -> str:
    if worth.amount is None:
        return (
            f"Even if {100 * worth.steps[-1].amount:.0f} % of the cases stayed away, {base.best} would not be shown to "
            "reach the policy."
        )
    return (
        f"{base.best} would do as well as the policy if {100 * worth.amount:.2g} % of the cases stayed away "
        f"(95 % interval {_interval(worth, 100.0)} %)."
    )
