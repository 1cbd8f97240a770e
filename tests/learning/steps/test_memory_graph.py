"""Captured steps of a policy with memory: what a replay does is what an eager step does, to the bit."""

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec
from helpers.memory_samples import chunked_samples
from helpers.recorded_graphs import RecordedGraphs
from helpers.toy_runs import toy_stepper

from longstride.learning.memory.chunks import weighted
from longstride.learning.minibatches import split
from longstride.learning.steps.cuda_graph import GraphedEpochs
from longstride.policies.spec import CHUNK

LENGTHS = (300, 1, 128, 40, 500)
"""Steps of trajectories, of ten chunks."""


@pytest.fixture(autouse=True)
def on_a_card(monkeypatch):
    """Scan as on a GPU: in rounds over all steps, of which a capture is made."""
    monkeypatch.setattr("longstride.policies.families.mingru.network._step_by_step", lambda tensor: False)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("microbatch", [10_000, 2 * CHUNK])
def test_replays_are_eager_steps_to_the_bit(microbatch, precision):
    """In minibatches of four chunks and two slots of padding; with one capture."""
    steppers = [toy_stepper(memory_model(memory_spec()), microbatch=microbatch, precision=precision) for _ in range(2)]
    samples, graphs = chunked_samples(steppers[0].model, LENGTHS), RecordedGraphs()
    sizes, epochs = samples.chunks.valid.sum(dim=1).numpy(), GraphedEpochs(steppers[0], graphs)
    for seed in range(3):
        drawn = split(10, 4, np.random.default_rng(seed), slots=6)
        batches = weighted(drawn, sizes, np.empty(drawn.indices.shape, np.float32))
        indices, weights = map(torch.from_numpy, batches)
        epochs.prepare(samples, batches.steps, batches.size)
        found = epochs.run(batches, weights)
        expected = torch.stack([steppers[1].step(samples, i, w) for i, w in zip(indices, weights, strict=True)])
        assert torch.equal(found, expected)
        assert torch.equal(steppers[0].model.flat, steppers[1].model.flat)
    assert (graphs.captured, graphs.replays) == (1, 9)
