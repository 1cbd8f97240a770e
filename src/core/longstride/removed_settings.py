"""Settings that earlier versions had: what old hyperparameters files and run directories may still name."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from longstride.errors import UserError


class Removed(NamedTuple):
    """A setting that this version does not have."""

    without_effect: tuple[Any, ...]  # values that ask for nothing else than this version does; empty for all values
    now: str  # phrase that says what this version does


REMOVED = {
    "group_method": Removed(("crn",), "GRPO compares whole rollouts on common random numbers"),
    "branch_length": Removed((), "GRPO plays no branches"),
    "branch_interval": Removed((), "GRPO plays no branches"),
    "rollout_wire": Removed(("auto", "rows"), "hosts send whole rows"),
    "clip_range_schedule": Removed(("constant",), "the clip range is constant"),
    "value_clip_range": Removed((0,), "the value loss is not clipped"),
    "average_reward": Removed((False,), "a discounted sum of rewards is maximised"),
}
"""Removed settings by their lower-case names."""


def without_removed(values: Mapping[str, Any], where: Mapping[str, str], spell: Callable[[str], str]) -> dict[str, Any]:
    """Return values by lower-case names without removed settings that ask for nothing else than this version does.

    Args:
        values: the values.
        where: what messages call a name; one that is missing there is spelled.
        spell: spells a name as the user does.

    Raises:
        UserError: a removed setting asks for something else.
    """
    for name, value in values.items():
        if name in REMOVED and not _is_ignored(name, value):
            raise UserError(f"{_sentence(name, value, where.get(name, spell(name)))}; leave it out.")
    return {name: value for name, value in values.items() if name not in REMOVED}


def refuse_removed(name: str, where: str) -> None:
    """Refuse a name that is read from text, in any case and with either hyphen, if it is a removed setting's.

    Raises:
        UserError: it is.
    """
    removed = REMOVED.get(name.lower().replace("-", "_"))
    if removed is not None:
        raise UserError(f"{where}: this version has no such setting any more: {removed.now}.")


def sentences_about(values: Mapping[str, Any], file: str) -> list[str]:
    """Return a sentence about each removed setting of a run that asks for something else than this version does."""
    return [
        f"{_sentence(name, value, f'{file}: {name.upper()}')}. The run goes on like this."
        for name, value in values.items()
        if name in REMOVED and not _is_ignored(name, value)
    ]


def _is_ignored(name: str, value: Any) -> bool:
    without_effect = REMOVED[name].without_effect
    return not without_effect or value in without_effect


def _sentence(name: str, value: Any, where: str) -> str:
    return f"{where} is {value!r}, which this version does not offer any more: {REMOVED[name].now}"
