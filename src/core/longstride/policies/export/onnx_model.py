"""A policy as an ONNX model, by torch's exporter: normalisation, mask and the greedy choice inside."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from longstride.errors import UserError, one_line
from longstride.escaping import json_line
from longstride.policies.export.contract import FORBIDDEN, actor_tensors
from longstride.policies.export.family import family_export
from longstride.policies.parameter_layout import FEATURE_WEIGHTS
from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box, Discrete

OPSET = 18
"""Operators of ONNX 1.13 (2022), which the runtimes of today all have."""

_EXAMPLE_ROWS = 2
"""Rows of the example that is traced; the model takes any number."""


def onnx_bytes(spec: PolicySpec, params: np.ndarray, contract: dict[str, Any]) -> bytes:
    """Return the ONNX model of a policy; its metadata has the contract.

    Raises:
        ImportError: onnx or onnxscript is not installed.
        UserError: torch cannot export it.
    """
    import onnx
    import onnxscript  # noqa: F401

    inputs = _example(contract)
    names = [output["name"] for output in contract["outputs"]]
    batch = torch.export.Dim("batch")
    try:
        with _silenced():
            program = torch.onnx.export(
                _Policy(spec, params, list(inputs)).eval(),
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=names,
                dynamic_shapes={"inputs": tuple({0: batch} for _ in inputs)},
                opset_version=OPSET,
                dynamo=True,
                external_data=False,
            )
    except Exception as error:
        raise UserError(
            f"torch {torch.__version__} cannot export this policy to ONNX: {type(error).__name__}: {one_line(error)}; "
            "export the other formats, or update torch, onnx and onnxscript."
        ) from error
    assert program is not None  # without a file it is returned
    model = program.model_proto
    entry = model.metadata_props.add()
    entry.key, entry.value = "contract", json_line(contract)
    model.producer_name, model.producer_version = "longstride", contract["longstride"]
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def _example(contract: dict[str, Any]) -> dict[str, Tensor]:
    """Return inputs by name, of a few rows."""
    kinds = {"float32": torch.float32, "bool": torch.bool}
    return {
        each["name"]: torch.ones(_EXAMPLE_ROWS, *each["shape"][1:], dtype=kinds[each["dtype"]])
        for each in contract["inputs"]
    }


class _Policy(nn.Module):
    """The policy for one step of any number of rows; inputs and outputs are those of the contract."""

    def __init__(self, spec: PolicySpec, params: np.ndarray, inputs: list[str]) -> None:
        super().__init__()
        self._inputs = inputs
        self._spec, self._network, self._names = spec, family_export(spec).torch_step, []
        for name, tensor in actor_tensors(spec, params).items():
            self.register_buffer(name.replace(".", "_"), torch.from_numpy(tensor.copy()))
            self._names.append(name)
        if isinstance(spec.action_space, Box):
            space = spec.action_space
            arrays = (*space.bounds, space.centre.astype(np.float32), space.scales.astype(np.float32))
            for name, values in zip(("low", "high", "centre", "scale"), arrays, strict=True):
                self.register_buffer(name, torch.from_numpy(values.copy()))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return action, logits or means and, with memory, the next state."""
        arrays = dict(zip(self._inputs, inputs, strict=True))
        spec, tensors = self._spec, {name: self.get_buffer(name.replace(".", "_")) for name in self._names}
        observation = arrays["observation"]
        x = (observation - tensors["observation_mean"]) * tensors["observation_scale"]
        state = arrays.get("state", observation[:, :0])
        outputs, state = self._network(spec, tensors, x.clamp(-spec.observation_limit, spec.observation_limit), state)
        if spec.action_features:
            outputs = outputs + (arrays["features"] * tensors[FEATURE_WEIGHTS]).sum(dim=-1)
        if isinstance(spec.action_space, Box):
            action = self._bounded(outputs)
        else:
            outputs = torch.where(arrays["mask"], outputs, FORBIDDEN)
            action = self._likeliest(outputs)
        return (action, outputs, state) if spec.state_size else (action, outputs)

    def _bounded(self, means: Tensor) -> Tensor:
        """Return float32[B, numbers] within the bounds."""
        if getattr(self._spec.action_space, "squashed", False):
            means = torch.tanh(means)
        numbers = self.get_buffer("centre") + self.get_buffer("scale") * means
        return torch.minimum(torch.maximum(numbers, self.get_buffer("low")), self.get_buffer("high"))

    def _likeliest(self, logits: Tensor) -> Tensor:
        """Return int64[B], or int64[B, choices]."""
        if isinstance(self._spec.action_space, Discrete):
            return logits.argmax(dim=1)
        parts = torch.split(logits, list(self._spec.action_space.choices), dim=1)
        return torch.stack([part.argmax(dim=1) for part in parts], dim=1)


@contextmanager
def _silenced() -> Iterator[None]:
    """Print nothing of the exporter's progress, which is for its own developers; its errors are raised."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
