"""Signs that a run does not learn as it should, and what to try: pure functions of its records."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from longstride.learning.policy_health import MANY_DEAD

_LAST, _BEFORE = 5, 10
"""Records that show a sign all together, and records of a run before the first sign."""

_LITTLE_KL, _LITTLE_VARIANCE, _LITTLE_EFFECT, _FEW_CHANGES = 1e-5, 0.02, 0.05, 0.01

_LITTLE_ENTROPY, _NO_ENTROPY = 0.05, 0.01
"""Entropies, as shares of the largest one, of a policy that takes one action and of one that tries nothing."""

_INSTEAD = " This takes the place of the advice before."

_RECALLED = 500
"""Times at which the records of an interrupted run are looked at again."""

ENTROPY_TARGET = "ENTROPY_TARGET"
"""Name of the setting that keeps a policy trying."""

_FAST = 0.5
"""Share of the largest learning rate above which a run is young."""

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
    """Names one sign of trouble in a run at a time, and a further one only if it has a higher rank.

    The remedy of a further one takes the place of those before, and says so.
    """

    def __init__(self) -> None:
        self._records, self._named = list[dict[str, Any]](), list[Sign]()

    def on(self, record: dict[str, Any]) -> list[str]:
        """Return a sentence if this record of an iteration shows a sign of a higher rank than the named ones."""
        self._records.append(record)
        first, found = not self._named, self._further(self._records)
        return [f"{each.sentence}{'' if first else _INSTEAD}" for each in found]

    def recall(self, records: Sequence[dict[str, Any]]) -> None:
        """Go on after the records of a run that was interrupted, and remember the signs that it has named."""
        self._records = [*records]
        for end in reversed(range(len(records), 0, -max(len(records) // _RECALLED, 1))):
            self._further(records[:end])

    def _further(self, records: Sequence[dict[str, Any]]) -> list[Sign]:
        """Return the sign of the highest rank, and name it, if its rank is above those of the named ones."""
        found = signs(records)[:1]
        above = min((RANKS.index(sign.name) for sign in self._named), default=len(RANKS))
        found = [sign for sign in found if RANKS.index(sign.name) < above]
        self._named += found
        return found

    def at_the_end(self) -> list[str]:
        """Return a sentence about the named sign of the highest rank that the last iterations still show."""
        names = [sign.name for sign in self._named]
        still = [sign for sign in signs(self._records, is_over=True) if sign.name in names]
        return [f"Diagnosis of the run: {still[0].sentence}"] if still else []


RANKS = ("collapse", "fallen", "dead units", "observations ignored", "policy stands still", "critic")
"""Names of the signs; what comes first explains what comes later."""


def signs(records: Sequence[dict[str, Any]], is_over: bool = False) -> list[Sign]:
    """Return what the last records of metrics.jsonl show, in the order of ``RANKS``.

    A run that has only begun shows nothing, and one that is nearly over only what has begun before. ``is_over`` asks
    for all signs of a run at its end.
    """
    if len(records) < _BEFORE:
        return []
    last = records[-_LAST:]
    found = [_collapsed(records), _fallen(records)]
    if is_over or not _ends(records):
        found += [_dead(last), _blind(last), _still(last), _unforeseen(last)]
    return [sign for sign in found if sign is not None]


def _collapsed(records: Sequence[dict[str, Any]]) -> Sign | None:
    """Find a policy that takes one action, or tries nothing, since a time at which it still learned fast."""
    some = [*records[:_BEFORE], *records[:: max(len(records) // 100, 1)]]
    first = max((record["entropy"] for record in some if record.get("entropy") is not None), default=0.0)
    if first <= 0.0 or not _values(records[-_LAST:], "entropy"):
        return None
    if not _values(records[-_LAST:], "choices_changed") and not any(record.get("entropy_target") for record in some):
        return None  # real-valued actions, or a policy that starts from a rule
    limits = {"entropy": _LITTLE_ENTROPY * first, "choices_changed": _FEW_CHANGES}
    one_action = _since(records, limits)
    begin = _since(records, {"entropy": _NO_ENTROPY * first}) if one_action is None else one_action
    if begin is None or _ends(records[: begin + 1], _FAST):
        return None
    since = f"since iteration {records[begin].get('iteration', begin + 1)}"
    entropy = f"(entropy {records[-1]['entropy']:.2g}, at most {first:.2g} before)"
    if one_action is not None:
        measured = f"the policy takes one action whatever it observes, {since} {entropy}"
        remedy = f"it stopped trying the others too early, so begin a new run with a higher {ENTROPY_TARGET}"
    else:
        measured = f"the policy hardly explores, {since} {entropy}"
        remedy = f"if its result is not good enough, begin a new run with a higher {ENTROPY_TARGET}"
    return Sign("collapse", measured, remedy)


def _since(records: Sequence[dict[str, Any]], limits: Mapping[str, float]) -> int | None:
    """Return the place from which all records keep some figures below their limits; None if the last five do not."""
    begin = len(records)
    while begin and all((v := records[begin - 1].get(name)) is not None and v <= most for name, most in limits.items()):
        begin -= 1
    return begin if len(records) - begin >= _LAST else None


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
        "the policy has become worse, or unfinished work piles up; a run with evaluations (EVALUATE_EVERY) keeps its "
        "best policy; otherwise try a new run with a lower LEARNING_RATE_ACTOR"
    )
    return Sign("fallen", measured, remedy)


def _ends(records: Sequence[dict[str, Any]], share: float = 0.2) -> bool:
    """Return whether the schedule has left less than a share of the learning rate, so that a policy hardly moves."""
    some = [*records[:: max(len(records) // 100, 1)], records[-1]]
    rates = [r["learning_rate"] / (r.get("learning_rate_factor") or 1.0) for r in some if r.get("learning_rate")]
    return bool(rates) and rates[-1] < share * max(rates)


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
    remedy = (
        "check that observe() writes what the choice should depend on, and that step() charges a cost where it is "
        "caused, or train longer"
    )
    if changed := _values(last, "choices_changed"):
        if max(changed) > _FEW_CHANGES:
            return None
        measured = (
            f"the most likely action stays the same for {1 - changed[-1]:.0%} of observations if others replace them"
        )
        return Sign("observations ignored", measured, remedy)
    effects = _values(last, "observation_effect")
    if not effects or max(effects) > _LITTLE_EFFECT:
        return None
    measured = (
        f"what the policy does hardly depends on what it observes (means vary by {effects[-1]:.3f} standard deviations)"
    )
    return Sign("observations ignored", measured, remedy)


def _still(last: Sequence[dict[str, Any]]) -> Sign | None:
    divergences = _values(last, "approx_kl")
    if not divergences or max(divergences) > _LITTLE_KL:
        return None
    measured = f"the policy hardly changes (KL below {_LITTLE_KL:g} in {_LAST} iterations)"
    return Sign("policy stands still", measured, "raise LEARNING_RATE_ACTOR or lower ADAM_EPSILON_ACTOR")


def _unforeseen(last: Sequence[dict[str, Any]]) -> Sign | None:
    shares = _values(last, "explained_variance")
    if not shares or max(shares) > _LITTLE_VARIANCE:
        return None
    measured = f"the critic explains {max(shares[-1], 0.0):.0%} of the variance of future rewards"
    remedy = (
        "if the future depends on the present, let observe() write what it depends on, or lower HORIZON; if it hardly "
        "does, as in an inventory with a short lead time, this is normal"
    )
    return Sign("critic", measured, remedy)
