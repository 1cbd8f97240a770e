"""A policy as one file of C99 without any library: parameters as constants, one function for a step."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from longstride.escaping import c_string
from longstride.policies.export.c_draw import ADD_NOISE, DRAWN, NORMAL, UNIFORM
from longstride.policies.export.c_text import (
    ACT,
    ALLOWS,
    BEST,
    CLIPPED,
    FINITE,
    INTERFACE,
    LINEAR,
    SQUASHED,
    STEP,
    TANH,
    array_text,
)
from longstride.policies.export.contract import FORBIDDEN, deviations
from longstride.policies.export.family import family_export
from longstride.policies.export.labels import Label, Labels
from longstride.policies.parameter_layout import FEATURE_WEIGHTS, LOG_STD
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import ActionSpace, Box


class CFiles(NamedTuple):
    """Text of the two files. The first needs no other; the second holds its declarations for other files."""

    source: str
    header: str


def c_files(spec: PolicySpec, params: np.ndarray, labels: Labels, title: str, draws: bool = False) -> CFiles:
    """Return a policy in C.

    Args:
        spec: architecture of the policy.
        params: float32[*], the actor's part of the flat parameters.
        labels: names and units of the numbers; like the title they stand in string literals alone.
        title: line about where the policy comes from.
        draws: whether draws are better than the likeliest actions, as ``POLICY_DRAWS``.

    Raises:
        UserError: the family cannot be exported.
    """
    network, interface = family_export(spec).c_source(spec), _interface(spec, labels, draws)
    helpers = [LINEAR, network, FINITE, _step(spec), *_choices(spec.action_space)]
    if any("policy_tanh(" in text for text in helpers):
        helpers.insert(0, TANH)
    parts = [interface, *_names(spec, labels, title), *_constants(spec, params), *helpers]
    return CFiles("\n\n".join(parts) + "\n", interface + "\n")


def _interface(spec: PolicySpec, labels: Labels, draws: bool) -> str:
    """Return sizes and declarations."""
    space = spec.action_space
    is_box = isinstance(space, Box)
    sizes = {
        "OBSERVATION": spec.observation_size,
        "OUTPUT": space.outputs,
        "ACTION": space.outputs if is_box else len(space.choices),
        "FEATURE": spec.action_features,
        "STATE": spec.state_size,
    }
    defines = "\n".join(f"#define POLICY_{name}_SIZE {size}" for name, size in sizes.items())
    defines += f"\n#define POLICY_DRAWS {draws:d} /* 1: policy_draw is better than policy_act, by an evaluation */"
    names = "\n".join(f"extern const char *const {array};" for array, _ in _labelled(spec, labels))
    text = INTERFACE.replace("DEFINES", defines).replace("NAMES\n", f"{names}\n" if names else "")
    return text.replace("KIND", "float" if is_box else "int").replace("OUTPUTS", "means" if is_box else "logits")


def _labelled(spec: PolicySpec, labels: Labels) -> list[tuple[str, tuple[Label, ...]]]:
    """Return the arrays of names, as they are declared in C, and the labels in each."""
    action = "action" if isinstance(spec.action_space, Box) else "output"
    arrays = {"observation": labels.observation, "feature": labels.features, action: labels.action}
    return [(f"policy_{name}_names[POLICY_{name.upper()}_SIZE]", of) for name, of in arrays.items() if of]


def _names(spec: PolicySpec, labels: Labels, title: str) -> Iterator[str]:
    """Yield the title and the names of the numbers of each array, as string literals."""
    yield f"const char policy_title[] = {c_string(title)};"
    for array, of in _labelled(spec, labels):
        names = ",\n".join(f"    {c_string(label.in_words)}" for label in of)
        yield f"const char *const {array} = {{\n{names}\n}};"


def _constants(spec: PolicySpec, params: np.ndarray) -> Iterator[str]:
    """Yield the arrays of parameters, and the bounds of real actions."""
    layout = spec.layout
    for name, offset in layout.offsets.items():
        if offset >= layout.actor_size or name == LOG_STD:
            continue
        values = params[offset : offset + int(np.prod(layout.shapes[name]))]
        yield array_text(f"policy_{name.replace('.', '_')}", values, " x ".join(map(str, layout.shapes[name])))
    if isinstance(spec.action_space, Box):
        largest = np.finfo(np.float32).max
        for name, bounds in zip(("low", "high"), np.clip(spec.action_space.bounds, -largest, largest), strict=True):
            yield array_text(f"policy_{name}", bounds, "bounds of the action")
        yield array_text("policy_deviation", deviations(spec, params), "standard deviations of draws")
        if not spec.action_space.squashed:
            yield array_text("policy_centre", spec.action_space.centre, "the action for a mean of 0")
            yield array_text("policy_scale", spec.action_space.scales, "what a mean of 1 adds to it")


def _step(spec: PolicySpec) -> str:
    """Return ``policy_step``."""
    size, masked = spec.action_space.outputs, not isinstance(spec.action_space, Box)
    checks = ["if (!policy_finite(observation, POLICY_OBSERVATION_SIZE))\n        return POLICY_NOT_FINITE;"]
    after, begin = [], 0
    if spec.action_features:
        checks.append(
            f"if (!policy_finite(features, {size * spec.action_features}))\n        return POLICY_NOT_FINITE;"
        )
        weights = f"policy_{FEATURE_WEIGHTS.replace('.', '_')}"
        after.append(
            f"for (i = 0; i < {size}; i++)\n        for (k = 0; k < POLICY_FEATURE_SIZE; k++)\n"
            f"            outputs[i] += features[i * POLICY_FEATURE_SIZE + k] * {weights}[k];"
        )
    for n in spec.action_space.choices:
        checks.append(f"if (mask && !policy_allows(mask + {begin}, {n}))\n        return POLICY_EMPTY_MASK;")
        begin += n
    if masked:
        after.append(
            f"for (i = 0; mask && i < {size}; i++)\n        if (!mask[i])\n            outputs[i] = {FORBIDDEN:g}f;"
        )
    unused = ["(void)mask;"] * (not masked) + ["(void)features;"] * (not spec.action_features)
    declared = "int i, k;" if spec.action_features else "int i;"
    text = STEP.replace("DECLARED", declared).replace("LIMIT", f"{float(spec.observation_limit)!r}f")
    text = text.replace("CHECKS", "\n    ".join([*unused, *checks])).replace("AFTER", "\n    ".join(after))
    return (f"{ALLOWS}\n\n" if masked else "") + text.replace("    \n", "")  # nothing comes after in some


def _choices(space: ActionSpace) -> Iterator[str]:
    """Yield ``policy_act`` and ``policy_draw``, each after what it calls."""
    if isinstance(space, Box):
        bounded = SQUASHED if space.squashed else CLIPPED
        yield _choice("policy_act", "float", "int i;", bounded)
        yield f"{UNIFORM}\n\n{NORMAL}"
        yield _choice("policy_draw", "float", "int i;", ADD_NOISE + bounded)
        return
    for helpers, name, function, more in (
        (BEST, "policy_act", "policy_best", ""),
        (f"{UNIFORM}\n\n{DRAWN}", "policy_draw", "policy_drawn", ", random"),
    ):
        begin, lines = 0, []
        for i, n in enumerate(space.choices):
            chosen = f"{function}(outputs + {begin}, mask ? mask + {begin} : mask, {n}{more})"
            lines.append(f"action[{i}] = {chosen};")
            begin += n
        yield helpers
        yield _choice(name, "int", "", "\n    ".join(lines))


def _choice(name: str, kind: str, declared: str, choose: str) -> str:
    """Return a function that takes a step and ends with an action."""
    indent = " " * len(f"int {name}(") + ("unsigned long long *random, " if name == "policy_draw" else "")
    text = ACT.replace("NAME", name).replace("INDENT", indent).replace("KIND", kind).replace("CHOOSE", choose)
    return text.replace("    DECLARED\n", f"    {declared}\n" if declared else "")
