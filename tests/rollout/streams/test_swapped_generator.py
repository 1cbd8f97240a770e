"""One generator in place of several: each stream's draws are its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from longstride.errors import UserError
from longstride.rollout.streams import swapped_generator
from longstride.rollout.streams.swapped_generator import (
    SwappedGenerator,
    put_in,
    require_known_layout,
    state_of,
    take_out,
)
from longstride.rollout.streams.swapped_generator import words_of as words
from longstride.seeding import stream

STREAMS = 3


@njit
def draw(rng, order, kinds, saved, memory, rest):
    drawn = np.zeros(len(order))
    for k in range(len(order)):
        put_in(saved[order[k]], memory, rest)
        if kinds[k] == 0:
            drawn[k] = rng.random()
        elif kinds[k] == 1:
            drawn[k] = rng.standard_normal()
        else:
            drawn[k] = rng.integers(0, 1000, dtype=np.uint32)  # takes half of a word
        take_out(saved[order[k]], memory, rest)
    return drawn


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, STREAMS - 1), st.integers(0, 2)), min_size=1, max_size=60))
def test_streams_that_share_a_generator_draw_what_they_draw_alone(plan):
    order, kinds = np.array(plan).T
    swapped, alone = SwappedGenerator(), [stream(5, "policy", k) for k in range(STREAMS)]
    saved = np.stack([words(each) for each in alone])
    drawn = draw(swapped.generator, order, kinds, saved, swapped.words, swapped.rest)
    draws = [lambda rng: rng.random(), lambda rng: rng.standard_normal()]
    draws.append(lambda rng: rng.integers(0, 1000, dtype=np.uint32))
    assert drawn.tolist() == [float(draws[kind](alone[k])) for k, kind in plan]
    assert [state_of(each) for each in saved] == [each.bit_generator.state for each in alone]


def test_a_numpy_of_another_layout_is_refused(monkeypatch):
    require_known_layout()
    monkeypatch.setattr(swapped_generator, "words_of", lambda generator: np.arange(5, dtype=np.uint64))
    with pytest.raises(UserError, match=r"keeps the state of its generators elsewhere .* set COLLECT_ON to cpu"):
        require_known_layout()
