"""Chunks of trajectories: their places, what padding contributes, and microbatches of whole chunks."""

import numpy as np
import pytest
import torch
from helpers.memory_models import memory_model, memory_spec
from helpers.memory_samples import chunked_samples
from helpers.toy_runs import toy_stepper

from longstride.learning.memory.chunks import chunk_rows, weighted
from longstride.learning.minibatches import draw_epochs, split
from longstride.policies.spec import CHUNK

LENGTHS = (300, 1, 128, 40)
"""Steps of trajectories, of 3 + 1 + 1 + 1 chunks."""
SPEC = memory_spec()


def new_stepper(**changes):
    return toy_stepper(memory_model(SPEC), **{"microbatch": 10_000, "max_grad_norm": 1e9, **changes})


def gradients_of(stepper, samples, indices, weights):
    """Return gradient and report; places of the gradient that belong to no parameter hold any number."""
    gradient, report = stepper.gradients(samples, indices, weights)
    return torch.cat([gradient[part] for part in stepper._slices.values()]), report


def shared_weights(samples):
    """Return the weights of a minibatch of all chunks."""
    return samples.shares(torch.arange(len(samples.chunks.rows)))


def test_chunks_by_hand():
    rows, valid, counts, starts = chunk_rows([5, 3, 4], 4)
    assert rows.tolist() == [[0, 1, 2, 3], [4, 4, 4, 4], [5, 6, 7, 7], [8, 9, 10, 11]]
    assert valid.tolist() == [[True] * 4, [True, False, False, False], [True, True, True, False], [True] * 4]
    assert counts.tolist() == [2, 1, 1]
    assert starts.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(5))
def test_every_step_is_in_one_chunk_once_and_in_order(seed):
    rng = np.random.default_rng(seed)
    steps, chunk = rng.integers(1, 40, int(rng.integers(1, 8))).tolist(), int(rng.integers(1, 20))
    rows, valid, counts, _ = chunk_rows(steps, chunk)
    assert rows[valid].tolist() == list(range(sum(steps)))
    assert counts.tolist() == [-(-n // chunk) for n in steps]
    ends = np.repeat(np.cumsum(steps), counts)
    assert (rows < ends[:, None]).all(), "no chunk reaches into another trajectory"


def test_the_shares_of_chunks_add_up_to_one_and_every_step_weighs_the_same():
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    weights = shared_weights(samples)
    steps = samples.spread(weights).reshape(samples.chunks.valid.shape)
    assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
    assert weights.tolist() == pytest.approx([n / 469 for n in (128, 128, 44, 1, 128, 40)])
    np.testing.assert_allclose(steps.numpy(), samples.chunks.valid.numpy() / 469, rtol=1e-6)


@pytest.mark.parametrize("largest", [1, 2, 4, 100])
def test_the_weights_of_a_minibatch_of_chunks_add_up_to_one_and_every_step_weighs_the_same(largest):
    """With chunks that were drawn twice to fill up, of weight 0."""
    sizes = np.array([128, 128, 44, 1, 128, 40, 7])
    drawn = split(7, largest, np.random.default_rng(0), slots=largest + 1)
    minibatches = weighted(drawn, sizes, np.empty(drawn.indices.shape, np.float32))
    assert sorted(minibatches.indices[minibatches.weights > 0].tolist()) == list(range(7))
    for indices, weights in zip(minibatches.indices, minibatches.weights, strict=True):
        assert float(weights.sum()) == pytest.approx(1.0, abs=1e-6)
        real = weights > 0
        np.testing.assert_allclose(weights[real] / sizes[indices[real]], 1.0 / sizes[indices[real]].sum(), rtol=1e-6)
    assert weights.dtype == np.float32


def test_the_weights_of_some_of_the_chunks():
    """Indices are replaced by those of the chunks that are learned from, before the weights are made."""
    room, chosen = np.empty((2, 2, 3), np.int64), np.array([1, 4, 6])
    sizes = np.array([9, 10, 9, 9, 30, 9, 60])
    drawn = draw_epochs(room, 3, np.random.default_rng(0))
    room[...] = chosen[room]
    for each in drawn:
        found = weighted(each, sizes, np.empty(each.indices.shape, np.float32))
        assert sorted(found.indices[found.weights > 0].tolist()) == chosen.tolist()
        np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-6)


def test_what_the_places_of_padding_hold_changes_neither_loss_nor_gradient():
    """Every column of a minibatch is changed there, episodes begin there, and the bits stay."""
    stepper = new_stepper()
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    minibatch = samples.at(torch.arange(6))
    padding = minibatch.chunks.valid.flatten() == 0.0
    assert 200 < int(padding.sum()) < 500
    changed = {}
    for name in ("observations", "actions", "log_probs", "masks", "features", "advantages", "returns", "values"):
        column = getattr(minibatch, name).clone()
        column[padding] = torch.tensor(1, dtype=column.dtype)
        changed[name] = column
    changed["observations"][padding] = 7.0
    begins = minibatch.chunks.begins.clone()
    begins[padding] = True
    changed["chunks"] = minibatch.chunks._replace(begins=begins)
    found = []
    for each in (minibatch, minibatch._replace(**changed)):
        loss = stepper.loss(each, each.spread(shared_weights(samples)))
        gradient = torch.autograd.grad(loss.total, list(stepper.model.parameters()))
        found.append((loss.total, *loss.terms, *gradient))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_the_gradient_of_padded_chunks_is_that_of_the_steps_alone():
    """200 steps in one chunk without padding, and the same in two, without what crosses from one to the other.

    The step after the first chunk begins an episode, so that nothing crosses.
    """
    model = memory_model(SPEC)
    whole, (rows, valid, *_) = chunked_samples(model, (200,), chunk=200), chunk_rows([200], CHUNK)
    part = whole.chunks
    part.begins[CHUNK] = True
    part = part._replace(
        states=torch.cat([part.states, torch.ones(1, 32)]),
        critic_states=torch.cat([part.critic_states, torch.ones(1, 48)]),
        rows=torch.from_numpy(rows),
        valid=torch.from_numpy(valid.astype(np.float32)),
        starts=torch.arange(2),
    )
    padded = whole._replace(chunks=part)
    one, other = (
        gradients_of(new_stepper(), samples, torch.arange(len(samples.chunks.rows)), shared_weights(samples))
        for samples in (whole, padded)
    )
    for found, expected in zip(one, other, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("microbatch", [1, 128, 129, 256, 300, 700])
def test_microbatches_are_of_whole_chunks_and_do_not_change_the_gradient(microbatch):
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    indices, weights = torch.arange(6), shared_weights(samples)
    whole, split_up = new_stepper(), new_stepper(microbatch=microbatch)
    seen, loss = [], split_up.loss

    def noting(samples, *arguments):
        seen.append(len(samples.observations))
        return loss(samples, *arguments)

    split_up.loss = noting
    expected, found = (gradients_of(each, samples, indices, weights) for each in (whole, split_up))
    most = max(microbatch // CHUNK, 1) * CHUNK
    assert max(seen) == min(most, 6 * CHUNK)
    assert all(rows % CHUNK == 0 for rows in seen)
    assert sum(seen) == 6 * CHUNK
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_microbatches_of_several_threads_are_the_same_bits():
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    weights = shared_weights(samples)
    alone, together = (
        gradients_of(new_stepper(microbatch=CHUNK, threads=threads), samples, torch.arange(6), weights)
        for threads in (1, 3)
    )
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("microbatch", [256, 10_000])
def test_gradient_checkpointing_gives_the_same_gradient(microbatch):
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    weights = shared_weights(samples)
    plain, checkpointed = (
        gradients_of(new_stepper(microbatch=microbatch, checkpointing=chosen), samples, torch.arange(6), weights)
        for chosen in (False, True)
    )
    for one, other in zip(plain, checkpointed, strict=True):
        assert torch.equal(one, other)


def test_the_gradient_of_a_part_is_that_of_its_mean_over_steps():
    """What the noise is measured by: each chunk weighs as its steps."""
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    stepper, part = new_stepper(), torch.tensor([1, 2, 3])
    expected = stepper.gradients(samples, part, torch.tensor([128.0, 44.0, 1.0]) / 173)[0]
    found = stepper.actor_gradient(samples, part)
    torch.testing.assert_close(found, expected[stepper._slices["actor"]], rtol=1e-5, atol=1e-7)


def test_the_gradient_of_a_part_without_steps_to_learn_from_is_zero():
    """A group of GRPO whose members did the same; without memory its gradient is 0."""
    samples = chunked_samples(memory_model(SPEC), LENGTHS)
    samples.chunks.valid[3:] = 0.0
    assert not new_stepper().actor_gradient(samples, torch.tensor([3, 4])).any()


@pytest.mark.parametrize("chunks", [6, 32])
def test_a_step_that_runs_out_of_memory_is_tried_again_with_half_its_chunks(chunks):
    samples = chunked_samples(memory_model(SPEC), (CHUNK,) * chunks)
    stepper, weights = new_stepper(), torch.full((chunks,), 1.0 / chunks)
    expected = new_stepper().gradients(samples, torch.arange(chunks), weights)[1]
    loss, sizes = stepper.loss, []

    def failing(samples, *arguments):
        sizes.append(len(samples.chunks.rows))
        if len(sizes) == 1:
            raise MemoryError
        return loss(samples, *arguments)

    stepper.loss = failing
    report = stepper.step(samples, torch.arange(chunks), weights)
    assert sizes == [chunks, chunks // 2, chunks // 2]
    torch.testing.assert_close(report, expected, rtol=1e-4, atol=1e-6)
