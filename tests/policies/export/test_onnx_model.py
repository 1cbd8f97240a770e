"""The policy as an ONNX model: the same as torch, in batches of any size, with memory, and described inside."""

import json

import numpy as np
import pytest
from helpers.exported_policies import POLICIES, exported, steps_of

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime

from longstride.commands.export.forms import onnx_form, play_torch
from longstride.commands.export.parity import differences, limit_of
from longstride.policies.export.onnx_model import OPSET, onnx_bytes


@pytest.mark.parametrize("name", POLICIES)
def test_it_computes_what_torch_does(name, tmp_path):
    """One row at a time and all rows together; with memory each row of a batch has a state of its own."""
    spec, params, contract = exported(name)
    content = onnx_bytes(spec, params, contract)
    (tmp_path / "policy.onnx").write_bytes(content)
    steps, model = steps_of(name), onnx.load_from_string(content)
    reference, play = play_torch(spec, params, steps), onnx_form(tmp_path / "policy.onnx", contract)
    outputs, actions = play(steps)
    found = differences(spec, steps, reference, {"ONNX": (outputs, actions)}, ("ONNX",))["ONNX"]
    assert found.within(limit_of(reference, steps))
    assert found.outputs < 2e-5
    assert json.loads(model.metadata_props[0].value) == contract
    assert {each.domain: each.version for each in model.opset_import}[""] == OPSET
    for described, value in zip(contract["outputs"], [*model.graph.output], strict=True):
        sizes = [d.dim_value or d.dim_param for d in value.type.tensor_type.shape.dim]
        assert (value.name, len(sizes), sizes[1:]) == (
            described["name"],
            len(described["shape"]),
            described["shape"][1:],
        )
        assert isinstance(sizes[0], str), "the batch has a name and no size"
    _compare_batches(steps, contract, content, outputs)


def _compare_batches(steps, contract, content, outputs):
    """Check rows of a batch against the same rows played alone, in the first three steps of three episodes."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    begins, state = np.flatnonzero(steps.begins)[:3], None
    if contract["inputs"][-1]["name"] == "state":
        state = np.zeros((3, contract["inputs"][-1]["shape"][1]), np.float32)
    for t in range(3):
        rows = begins + t
        known = {"observation": steps.observations, "mask": steps.masks, "features": steps.features}
        given = {each["name"]: known[each["name"]][rows] for each in contract["inputs"] if each["name"] != "state"}
        found = session.run(None, given if state is None else {**given, "state": state})
        np.testing.assert_allclose(found[1], outputs[rows], atol=2e-5)
        for each, array in zip(contract["outputs"], found, strict=True):
            assert (str(array.dtype), list(array.shape)) == (each["dtype"], [3, *each["shape"][1:]])
        state = None if state is None else found[2]
