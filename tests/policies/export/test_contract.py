"""The contract, the parameters and the labels of an exported policy."""

import json
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
from helpers.exported_policies import POLICIES, exported, model_of

pytest.importorskip("pydantic")

from longstride.errors import UserError
from longstride.policies.export.contract import contract_bytes, contract_of, safetensors_bytes
from longstride.policies.export.labels import Label, Labels, read_labels
from longstride.policies.families.pointer.family import POINTER
from longstride.policies.make_spec import spec_for
from longstride.process.load import find_scenario
from longstride.process.simulator import ProcessSimulator
from longstride.simulators.classic_control import Acrobot, CartPole, MountainCar, MountainCarContinuous, Pendulum


@pytest.mark.parametrize("name", POLICIES)
def test_the_parameters_are_those_of_the_actor(name):
    spec, params, contract = exported(name)
    tensors, model = safetensors.numpy.load(safetensors_bytes(spec, params)), model_of(name)
    assert {key: list(t.shape) for key, t in tensors.items()} == contract["parameters"]["tensors"]
    for key, tensor in tensors.items():
        np.testing.assert_array_equal(tensor, model.tensors[key].detach().numpy())
    left = {key for key in model.tensors if not key.startswith(("critic", "value"))}
    assert set(tensors) == left


def test_the_contract_says_what_goes_in_and_comes_out():
    _, _, contract = exported("remembering shop")
    assert json.loads(contract_bytes(contract)) == contract
    arrays = {each["name"]: (each["dtype"], each["shape"]) for each in contract["inputs"] + contract["outputs"]}
    assert arrays == {
        "observation": ("float32", ["batch", 4]),
        "mask": ("bool", ["batch", 4]),
        "features": ("float32", ["batch", 4, 2]),
        "state": ("float32", ["batch", 32]),
        "action": ("int64", ["batch"]),
        "logits": ("float32", ["batch", 4]),
        "next_state": ("float32", ["batch", 32]),
    }
    _, _, box = exported("tracker")
    assert [each["name"] for each in box["inputs"]] == ["observation"]
    assert box["distribution"]["low"] == [-1.5, None]
    deviations = np.exp(model_of("tracker").log_std.detach().numpy())
    np.testing.assert_allclose(box["distribution"]["standard_deviation"], deviations, rtol=1e-6)


def test_a_family_that_cannot_be_exported():
    spec, params, _ = exported("shop")
    message = "family pointer cannot be exported; train one with POLICY_NETWORK mlp, mingru or transformer, or"
    with pytest.raises(UserError, match=message):
        contract_of(replace(spec, family=POINTER), params, Labels(), {})


def test_labels_are_names_and_units_in_order():
    spec = exported("tracker")[0]
    names = [f"n{i}" for i in range(spec.observation_size)]
    labels = read_labels({"observation": names, "action_units": ["m", ""]}, spec, "Toy")
    assert labels.observation[1] == Label("n1")
    assert labels.action == (Label("action[0]", "m"), Label("action[1]"))
    assert labels.features == ()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"observations": ["x"]}, "Toy.labels has no 'observations'; did you mean observation?"),
        ({"action": ["x"]}, "Toy.labels['action'] must be 2 texts, not ['x']."),
        ({"action_units": "ms"}, "Toy.labels['action_units'] must be 2 texts, not 'ms'."),
    ],
)
def test_wrong_labels_get_one_sentence(given, sentence):
    with pytest.raises(UserError) as error:
        read_labels(given, exported("tracker")[0], "Toy")
    assert str(error.value) == sentence


def test_the_built_in_simulators_name_their_numbers():
    process = ProcessSimulator(find_scenario("loan_desk"))
    for simulator in (CartPole(), Acrobot(), Pendulum(), MountainCar(), MountainCarContinuous(), process):
        labels = read_labels(simulator.labels, spec_for(simulator, (8,), (8,), "tanh"), type(simulator).__name__)
        for array, size in (("observation", simulator.observation_size), ("action", simulator.action_space.outputs)):
            assert len({label.name for label in getattr(labels, array)}) == size
    assert process.labels["action"][-1] == "postpone"
    assert process.labels["observation"][-5:-4] + process.labels["observation"][-1:] != []
