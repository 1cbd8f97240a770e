"""Values of a rollout before the update: on a GPU in pieces of their own size, and in microbatches where those fail."""

import numpy as np
import pytest
import torch
from helpers.random_rollouts import random_model, random_rollout
from helpers.toy_runs import toy_stepper

from longstride.learning.batch import critic_values

ROWS, CHUNK = 250, 100


class OnCard(torch.Tensor):
    """Rows that say that they lie on a GPU."""

    is_cuda = True


class Valuing:
    """A stepper whose critic writes down the rows of each call, and has no room for more than some."""

    def __init__(self, monkeypatch, microbatch, most=ROWS):
        monkeypatch.setattr(critic_values, "value_rows", lambda spec, samples: CHUNK)
        self.model = random_model("discrete")
        self.stepper, self.sizes, self.most = toy_stepper(self.model, microbatch=microbatch), [], most
        self.rows = random_rollout(self.model, ROWS).observations
        self._values, self.model.values = self.model.values, self.limited

    def limited(self, normalised):
        self.sizes.append(len(normalised))
        if len(normalised) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")
        return self._values(normalised)

    def values(self, on_card=True):
        self.sizes.clear()
        rows = self.rows.as_subclass(OnCard) if on_card else self.rows
        return critic_values.values_of(self.stepper, rows).numpy()

    @torch.no_grad()
    def expected(self):
        return self._values(self.model.normalise(self.rows)).numpy()


@pytest.mark.parametrize("microbatch", [7, 16, 99])
def test_pieces_on_a_card_do_not_depend_on_the_microbatch(monkeypatch, microbatch):
    valuing = Valuing(monkeypatch, microbatch)
    np.testing.assert_allclose(valuing.values(), valuing.expected(), rtol=1e-5, atol=1e-6)
    assert valuing.sizes == [100, 100, 50]
    valuing.values(on_card=False)
    assert valuing.sizes[0] == microbatch
    assert len(valuing.sizes) == -(-ROWS // microbatch)


def test_a_larger_microbatch_is_the_piece(monkeypatch):
    valuing = Valuing(monkeypatch, 200)
    valuing.values()
    assert valuing.sizes == [200, 50]


def test_pieces_without_room_become_microbatches_and_change_none(monkeypatch):
    valuing = Valuing(monkeypatch, 64, most=64)
    np.testing.assert_allclose(valuing.values(), valuing.expected(), rtol=1e-5, atol=1e-6)
    assert valuing.sizes == [100, 64, 64, 64, 58]
    assert valuing.stepper.memory.microbatch == 64
    assert valuing.stepper.memory.take_events() == []


def test_microbatches_without_room_either_are_halved(monkeypatch):
    valuing = Valuing(monkeypatch, 64, most=40)
    np.testing.assert_allclose(valuing.values(), valuing.expected(), rtol=1e-5, atol=1e-6)
    assert valuing.stepper.memory.microbatch == 32
    assert [event.phase for event in valuing.stepper.memory.take_events()] == ["values"]


def test_other_errors_are_passed_on(monkeypatch):
    valuing = Valuing(monkeypatch, 64)
    valuing.model.values = lambda normalised: torch.ones(2) @ torch.ones(3)
    with pytest.raises(RuntimeError, match="size"):
        valuing.values()


def test_pieces_that_had_no_room_are_not_tried_again(monkeypatch):
    valuing, dropped = Valuing(monkeypatch, 64, most=64), []
    valuing.stepper.memory.release = lambda: dropped.append(1)
    for _ in range(3):
        valuing.values()
    assert len(dropped) == 1
