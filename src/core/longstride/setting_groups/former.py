"""Settings of earlier versions: what old flags, hyperparameters files and run directories may still name."""

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
    "value_clip_range": Removed((0,), "the value loss is not clipped"),
    "average_reward": Removed((False,), "a discounted sum of rewards is maximised"),
}
"""Removed settings by their lower-case names."""

NEW_NAMES = {"episodes_per_update": "num_envs"}
"""Names of earlier versions, lower case, and their present ones. They are accepted until version 0.3."""

NEW_VALUES = {
    "update_execution": {"compiled": "numba", "compile": "torch_compile", "compile_graph": "torch_compile_graph"},
}
"""Values of earlier versions and their present ones, by lower-case name. They are accepted until version 0.3."""


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by lower-case names with present names and values. A present name wins over its former one."""
    present = {NEW_NAMES.get(name, name): value for name, value in values.items() if name in NEW_NAMES}
    present |= {name: value for name, value in values.items() if name not in NEW_NAMES}
    return {name: present_value(name, value) for name, value in present.items()}


def present_value(name: str, value: Any) -> Any:
    """Return the present value for one that a lower-case name may have had in an earlier version."""
    return NEW_VALUES[name].get(value, value) if name in NEW_VALUES and isinstance(value, str) else value


def sentences_about_names(values: Mapping[str, Any], spell: Callable[[str], str]) -> list[str]:
    """Return a sentence about each former name and value among values by lower-case names."""
    names = [f"{spell(old)} is now called {spell(new)}." for old, new in NEW_NAMES.items() if old in values]
    return names + [
        f"{spell(name)}: {value} is now called {new[value]}."
        for name, new in NEW_VALUES.items()
        if isinstance(value := values.get(name), str) and value in new
    ]


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
        f"{_sentence(name, value, f'{file}: {name.upper()}')}. The run continues without it."
        for name, value in values.items()
        if name in REMOVED and not _is_ignored(name, value)
    ]


def _is_ignored(name: str, value: Any) -> bool:
    without_effect = REMOVED[name].without_effect
    return not without_effect or value in without_effect


def _sentence(name: str, value: Any, where: str) -> str:
    return f"{where} is {value!r}, which this version does not offer any more: {REMOVED[name].now}"
