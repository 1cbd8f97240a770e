"""The loss as torch's compiler sees it: traced in one piece, forward and backward, and equal to that of eager steps."""

import numpy as np
import pytest
import torch
from helpers.random_rollouts import SPACES, random_model, random_rollout
from helpers.toy_runs import toy_coefficients, toy_stepper

from longstride.learning.minibatches import split
from longstride.learning.step_selection.executor import Executor

INDICES, WEIGHTS = torch.arange(64), torch.full((64,), 1 / 64)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()


def traced(loss):
    """Compile without generating code: what is traced runs operation by operation."""
    return torch.compile(loss, fullgraph=True, backend="aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("space", SPACES)
def test_the_traced_loss_has_the_gradients_and_terms_of_the_loss(space, precision):
    model = random_model(space, features=2 if space == "discrete" else 0)
    stepper, rollout = toy_stepper(model, microbatch=24, precision=precision), random_rollout(model, 64)
    parts = [model.layout.slice_of(part) for part in ("actor", "critic")]
    expected, terms = stepper.gradients(rollout, INDICES, WEIGHTS)
    stepper.use_loss(traced(stepper.loss))
    found, traced_terms = stepper.gradients(rollout, INDICES, WEIGHTS)
    for part in parts:
        torch.testing.assert_close(found[part], expected[part], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(traced_terms, terms, rtol=1e-5, atol=1e-6)
    stepper.use_loss(None)
    again = stepper.gradients(rollout, INDICES, WEIGHTS)[0]
    assert all(torch.equal(again[part], expected[part]) for part in parts)


def test_coefficients_change_without_another_compilation_and_a_new_format_compiles_again():
    counted = []

    def counting(graph, inputs):
        counted.append(graph)
        return graph.forward

    model = random_model("discrete")
    stepper, rollout = toy_stepper(model, microbatch=64), random_rollout(model, 64)
    reference = toy_stepper(model, microbatch=64)
    stepper.use_loss(torch.compile(stepper.loss, fullgraph=True, backend=counting))
    for clip_range, compilations in ((0.2, 1), (0.1, 1), (0.02, 1)):
        for each in (stepper, reference):
            changes = {
                "clip_range": clip_range,
                "entropy_coefficient": 0.1 * clip_range,
                "value_coefficient": clip_range,
            }
            each.set_coefficients(toy_coefficients(clip_range, **changes))
        found, expected = (each.gradients(rollout, INDICES, WEIGHTS)[1] for each in (stepper, reference))
        torch.testing.assert_close(found, expected)
        assert len(counted) == compilations
    stepper.use_precision("bf16")
    stepper.gradients(rollout, INDICES, WEIGHTS)
    assert len(counted) == 2


def test_compiled_epochs_are_eager_epochs():
    models = random_model("choices"), random_model("choices")
    executors = [Executor(toy_stepper(model, microbatch=16), "eager", compiler=traced) for model in models]
    executors[0].use("torch_compile")
    rollout = random_rollout(models[0], 128)
    for seed in range(2):
        batches = split(128, 32, np.random.default_rng(seed))
        for executor in executors:
            executor.prepare(rollout, batches)
        found, expected = (executor.run(rollout, batches) for executor in executors)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(models[0].flat, models[1].flat, rtol=1e-3, atol=1e-4)
