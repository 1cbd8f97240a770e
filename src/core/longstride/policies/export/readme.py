"""The README of an exported policy: its files, and a program for each of them."""

from typing import Any

from longstride.escaping import markdown_text
from longstride.policies.export.contract import C_HEADER, C_SOURCE, CONTRACT, FORBIDDEN, ONNX, TENSORS
from longstride.policies.export.family import family_export
from longstride.policies.parameter_layout import FEATURE_WEIGHTS
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box


def readme_of(spec: PolicySpec, contract: dict[str, Any], title: str, files: list[str]) -> str:
    """Return the README of a folder with some files, as Markdown.

    Raises:
        UserError: the family cannot be exported.
    """
    draws = bool(contract.get("draws"))
    rows = "\n".join(f"| `{name}` | {what} |" for name, what in _FILES.items() if name in files)
    parts = [
        f"# An exported policy\n{markdown_text(title)}\n\n| file | content |\n|---|---|\n{rows}",
        _meaning(spec, contract),
        _STEP_BY_STEP if spec.state_size else "",
        _c_program(spec, draws) if C_SOURCE in files else "",
        _onnx_program(spec, contract) if ONNX in files else "",
        _numpy_program(spec, contract) if TENSORS in files else "",
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


_FILES = {
    CONTRACT: "the contract: names, order, shapes, dtypes and units of what goes in and comes out, and the formulas",
    C_SOURCE: "the policy in C99, without any library",
    C_HEADER: "its declarations",
    ONNX: "the policy as an ONNX model",
    TENSORS: "the parameters",
}

_STEP_BY_STEP = """
## Memory
The policy remembers. The state is all 0 when an episode begins. Each step replaces it, and the next step needs it.
Keep a state for each episode that runs at the same time.
"""


def _meaning(spec: PolicySpec, contract: dict[str, Any]) -> str:
    """Return the tables of inputs and outputs."""
    lines = ["## What goes in and what comes out", "", "| array | dtype | shape | meaning |", "|---|---|---|---|"]
    for each in [*contract["inputs"], *contract["outputs"]]:
        shape = ", ".join(map(str, each["shape"]))
        lines.append(f"| `{each['name']}` | {each['dtype']} | [{shape}] | {each['meaning']} |")
    sampled = contract["distribution"]["formula"]
    lines += [
        "",
        f"{contract['acting']} `action` is the most likely one. A draw is made like this:",
        "",
        f"    {sampled}",
    ]
    if any("elements" in each for each in [*contract["inputs"], *contract["outputs"]]):
        lines += ["", f"`{CONTRACT}` names each number."]
    return "\n".join(lines)


def _c_program(spec: PolicySpec, draws: bool) -> str:
    is_box, memory, features = isinstance(spec.action_space, Box), spec.state_size > 0, spec.action_features > 0
    arrays = ["    float observation[POLICY_OBSERVATION_SIZE];"]
    if features:
        arrays.append(
            "    float features[POLICY_OUTPUT_SIZE * POLICY_FEATURE_SIZE] = {0}; /* the simulator's figures */"
        )
    if memory:
        arrays.append("    float state[POLICY_STATE_SIZE] = {0}; /* an episode begins */")
    arrays.append(f"    {'float' if is_box else 'int'} action[POLICY_ACTION_SIZE];")
    arguments = f"observation, NULL, {'features' if features else 'NULL'}, {'state' if memory else 'NULL'}"
    if draws:
        arrays.append("    unsigned long long random = 0; /* the seed of the draws */")
        arguments += ", &random"
    call = f"{'policy_draw' if draws else 'policy_act'}({arguments}, action)"
    program = _C_PROGRAM.replace("ARRAYS", "\n".join(arrays)).replace("CALL", call)
    return program.replace("FORMAT", "%.9g" if is_box else "%d")


_C_PROGRAM = """
## C
This program reads observations, one after another, and prints the actions. NULL in place of a mask allows everything.

```c
#include <stdio.h>

#include "policy.h"

int main(void)
{
ARRAYS
    int i;

    for (;;) {
        for (i = 0; i < POLICY_OBSERVATION_SIZE; i++)
            if (scanf("%f", &observation[i]) != 1)
                return 0;
        if (CALL != POLICY_OK)
            return 1;
        for (i = 0; i < POLICY_ACTION_SIZE; i++)
            printf("FORMAT ", action[i]);
        printf("\\n");
    }
}
```

```sh
cc -std=c99 -O2 main.c policy.c -o main
```
"""


def _onnx_program(spec: PolicySpec, contract: dict[str, Any]) -> str:
    given, more = {"observation": "observation"}, []
    if not isinstance(spec.action_space, Box):
        more.append(f"mask = np.ones((1, {spec.action_space.outputs}), bool)  # everything is allowed")
        given["mask"] = "mask"
    if spec.action_features:
        shape = f"(1, {spec.action_space.outputs}, {spec.action_features})"
        more.append(f"features = np.zeros({shape}, np.float32)  # the simulator's figures")
        given["features"] = "features"
    outputs = "action, outputs"
    if spec.state_size:
        more.append(f"state = np.zeros((1, {spec.state_size}), np.float32)  # an episode begins")
        given["state"], outputs = "state", "action, outputs, state"
    chosen = ""
    if contract.get("draws"):
        more.append(_SEED)
        chosen = "".join(f"    {line}\n" for line in ["outputs = outputs[0]", *_action_lines(spec, contract)])
    feed = ", ".join(f'"{name}": {value}' for name, value in given.items())
    program = _ONNX_PROGRAM.replace("ARRAYS", "\n".join(more)).replace("FEED", feed).replace("RETURNED", outputs)
    program = program.replace("DRAWN", chosen)
    return program.replace("SIZE", str(spec.observation_size))


_ONNX_PROGRAM = """
## ONNX
The same in Python, with `pip install onnxruntime numpy`. Other languages have runtimes, too. Any number of rows may go
in.

```python
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("policy.onnx")
ARRAYS
for line in sys.stdin:
    observation = np.array([line.split()], np.float32)  # [1, SIZE]
    RETURNED = session.run(None, {FEED})
DRAWN    print(*np.ravel(action))
```
"""


def _numpy_program(spec: PolicySpec, contract: dict[str, Any]) -> str:
    lines = ["x = (observation - p['observation_mean']) * p['observation_scale']".replace("'", '"')]
    limit = spec.observation_limit
    lines += [f"outputs, state = network(p, np.clip(x, {-limit}, {limit}), state)"]
    arrays = []
    if spec.action_features:
        shape = f"({spec.action_space.outputs}, {spec.action_features})"
        arrays.append(f"features = np.zeros({shape}, np.float32)  # the simulator's figures")
        lines.append(f'outputs = outputs + features @ p["{FEATURE_WEIGHTS}"]')
    if not isinstance(spec.action_space, Box):
        arrays.append(f"mask = np.ones({spec.action_space.outputs}, bool)  # everything is allowed")
        lines.append(f"outputs = np.where(mask, outputs, {FORBIDDEN:g})")
    if spec.state_size:
        arrays.append(f"state = np.zeros({spec.state_size}, np.float32)  # an episode begins")
    else:
        arrays.append("state = np.zeros(0, np.float32)  # no memory")
    lines += _action_lines(spec, contract)
    arrays += [_SEED] * bool(contract.get("draws"))
    body = "\n".join(f"    {line}" for line in lines)
    program = _NUMPY_PROGRAM.replace("NETWORK", family_export(spec).numpy_source(spec).strip("\n"))
    return program.replace("ARRAYS", "\n".join(arrays)).replace("BODY", body)


def _action_lines(spec: PolicySpec, contract: dict[str, Any]) -> list[str]:
    """Return the lines in Python that turn outputs into the better of the likeliest action and a draw."""
    space, draws = spec.action_space, bool(contract.get("draws"))
    if isinstance(space, Box):
        arrays = (("low", space.low), ("high", space.high), ("centre", space.centre), ("scale", space.scales))
        lines = [
            f"{name} = np.array({[float(x) for x in values]}, np.float32)".replace("inf", "np.inf")
            for name, values in arrays
        ]
        drawn = "np.tanh(outputs)" if space.squashed else "outputs"
        if draws:
            deviations = contract["distribution"]["standard_deviation"]
            lines.append(f"outputs = outputs + np.array({deviations}) * rng.standard_normal({len(deviations)})")
        return [*lines, f"action = np.clip(centre + scale * {drawn}, low, high)"]
    ends, begin = [], 0
    for n in space.choices:
        noise = f" + rng.gumbel(size={n})" if draws else ""  # the largest of logits with Gumbel noise is a draw
        ends.append(f"np.argmax(outputs[{begin}:{begin + n}]{noise})")
        begin += n
    return [f"action = [{', '.join(ends)}]"]


_SEED = "rng = np.random.default_rng(0)  # the seed of the draws"

_NUMPY_PROGRAM = """
## NumPy
The same from the parameters alone, with `pip install safetensors numpy`.

```python
import sys

import numpy as np
from safetensors.numpy import load_file

p = load_file("policy.safetensors")


NETWORK


ARRAYS
for line in sys.stdin:
    observation = np.array(line.split(), np.float32)
BODY
    print(*np.ravel(action))
```
"""
