"""Signs that a run does not learn as it should, and what to try: pure functions of its records."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from longstride.learning.policy_health import MANY_DEAD

_LAST, _BEFORE = 5, 10
"""Records that show a sign all together, and records of a run before the first sign."""

_LITTLE_KL, _LITTLE_VARIANCE, _LITTLE_EFFECT = 1e-5, 0.02, 0.05


_FAR, _NOISES = 0.75, 20.0
"""A fall of the mean reward that is named: as a share of its size, and in usual changes from record to record."""


class Sign(NamedTuple):
    """A sign that something is wrong."""

    name: str
    measured: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The sign as a sentence for a run."""
        return f"{self.measured[0].upper()}{self.measured[1:]}: {self.remedy}."


class Advice:
    """Names each sign of trouble in a run once."""

    def __init__(self) -> None:
        self._records, self._named = list[dict[str, Any]](), set[str]()

    def on(self, record: dict[str, Any]) -> list[str]:
        """Return a sentence for each sign that was not named before this record of an iteration."""
        self._records.append(record)
        new = [sign for sign in signs(self._records) if sign.name not in self._named]
        self._named |= {sign.name for sign in new}
        return [sign.sentence for sign in new]


def signs(records: Sequence[dict[str, Any]]) -> list[Sign]:
    """Return what the last records of metrics.jsonl show; nothing of a run that has only begun or is nearly over."""
    if len(records) < _BEFORE:
        return []
    last = records[-_LAST:]
    found = [_fallen(records)]
    if not _ends(records):
        found += [_dead(last), _blind(last), _still(last), _unforeseen(last)]
    return [sign for sign in found if sign is not None]


def _fallen(records: Sequence[dict[str, Any]]) -> Sign | None:
    """Compare the last records with the best ones in a row; those of the beginning may be of empty states."""
    before = records[_BEFORE : -_LAST : max(len(records) // 100, 1)]
    rewards, last = _values(before, "mean_reward"), _values(records[-_LAST:], "mean_reward")
    if len(rewards) < 2 * _LAST or not last:
        return None
    best, now = max(min(rewards[i : i + _LAST]) for i in range(len(rewards) - _LAST + 1)), max(last)
    usual = median(abs(after - earlier) for earlier, after in pairwise(rewards))
    if best - now <= max(_FAR * max(abs(best), abs(now)), _NOISES * usual):
        return None
    measured = f"the mean reward was {best:.3g} or better for a while and has been {now:.3g} or worse since"
    remedy = (
        "the policy has become worse, or what it leaves undone piles up; where a run is evaluated (EVALUATE_EVERY) "
        "its best policy is kept; else try a new run with a lower LEARNING_RATE_ACTOR"
    )
    return Sign("fallen", measured, remedy)


def _ends(records: Sequence[dict[str, Any]]) -> bool:
    """Return whether the schedule has taken nearly all of the learning rate, so that a policy hardly moves."""
    some = [*records[:: max(len(records) // 100, 1)], records[-1]]
    rates = [r["learning_rate"] / (r.get("learning_rate_factor") or 1.0) for r in some if r.get("learning_rate")]
    return bool(rates) and rates[-1] < 0.2 * max(rates)


def _values(records: Sequence[dict[str, Any]], name: str) -> list[float]:
    """Return a figure of some records; nothing where one does not have it."""
    values = [record.get(name) for record in records]
    return [float(value) for value in values if value is not None] if None not in values else []


def _dead(last: Sequence[dict[str, Any]]) -> Sign | None:
    shares = _values(last, "dead_units")
    if not shares or min(shares) < MANY_DEAD:
        return None
    measured = f"{shares[-1]:.0%} of the actor's hidden units give the same number for every observation"
    return Sign("dead units", measured, "lower LEARNING_RATE_ACTOR, or set ACTIVATION to 'tanh', and begin a new run")


def _blind(last: Sequence[dict[str, Any]]) -> Sign | None:
    effects = _values(last, "observation_effect")
    if not effects or max(effects) > _LITTLE_EFFECT:
        return None
    measured = f"what the policy does hardly depends on what it observes (outputs vary by {effects[-1]:.3f})"
    remedy = "look whether observe() writes what the choice should depend on, raise HORIZON, or train longer"
    return Sign("observations ignored", measured, remedy)


def _still(last: Sequence[dict[str, Any]]) -> Sign | None:
    divergences = _values(last, "approx_kl")
    if not divergences or max(divergences) > _LITTLE_KL:
        return None
    measured = f"the policy hardly moves (KL below {_LITTLE_KL:g} in {_LAST} iterations)"
    return Sign("policy stands still", measured, "raise LEARNING_RATE_ACTOR or lower ADAM_EPSILON_ACTOR")


def _unforeseen(last: Sequence[dict[str, Any]]) -> Sign | None:
    shares = _values(last, "explained_variance")
    if not shares or max(shares) > _LITTLE_VARIANCE:
        return None
    measured = f"the critic explains {max(shares[-1], 0.0):.0%} of what rewards follow"
    remedy = (
        "if the future depends on the present, let observe() show on what, or lower HORIZON; if it hardly does, as in "
        "an inventory of short lead time, this is as it should be"
    )
    return Sign("critic", measured, remedy)
