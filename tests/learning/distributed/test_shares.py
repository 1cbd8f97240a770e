"""Shares of instances and minibatches: each instance and each sample belongs to one rank, with its own weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longstride.errors import UserError
from longstride.learning.distributed.shares import most_slots, offsets, own_part, share_of, write_part
from longstride.learning.minibatches import draw_epochs, minibatch_shape


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 4))
def test_shares_are_whole_groups_one_after_another(size, more, group):
    instances = (size + more) * group
    shares = [share_of(instances, group, rank, size) for rank in range(size)]
    assert [i for share in shares for i in range(share.first, share.first + share.count)] == list(range(instances))
    assert all(share.first % group == share.count % group == 0 for share in shares)
    counts = [share.count for share in shares]
    assert max(counts) - min(counts) <= group
    assert counts[-1] == max(counts)  # by which all plan
    assert [share.of(1) for share in shares] == [1] + [0] * (size - 1)
    assert sum(share.of(instances - 1) for share in shares) == instances - 1


def test_a_rank_without_an_instance_is_refused():
    with pytest.raises(UserError, match=r"^2 processes share 1 environment instance, .* NUM_ENVS to 2 or"):
        share_of(1, 1, 0, 2)
    with pytest.raises(UserError, match=r"^3 processes share 2 groups of 4 environment instances, so .* to 12 or more"):
        share_of(8, 4, 1, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.integers(1, 50), st.booleans(), st.integers(0, 99))
def test_every_sample_is_one_ranks_with_its_weight(counts, largest, chosen, seed):
    """The parts of the ranks are the minibatches of one process: the same samples with the same weights."""
    everywhere, rng = sum(counts), np.random.default_rng(seed)
    if everywhere == 0:
        return
    count, size = minibatch_shape(everywhere, largest)
    whole = draw_epochs(np.empty((1, count, size), np.int64), everywhere, np.random.default_rng(seed))[0]
    found = [dict[int, float]() for _ in range(count)]
    for begin, samples in zip(offsets(counts), counts, strict=True):
        places = np.sort(rng.choice(3 * samples + 1, samples, replace=False)) if chosen else None
        part = own_part(whole, begin, samples)
        slots = max(int(part.counts.max()), 1) + 2
        mine = write_part(part, places, np.full((count, slots), 99), np.full((count, slots), np.nan, np.float32))
        for row, (indices, weights, used) in enumerate(zip(mine.indices, mine.weights, mine.lengths, strict=True)):
            assert not weights[used:].any() and (weights[:used] > 0).sum() == part.counts[row]
            samples_here = indices[weights > 0]
            samples_here = samples_here if places is None else np.searchsorted(places, samples_here)
            found[row] |= dict(zip((samples_here + begin).tolist(), weights[weights > 0].tolist(), strict=True))
    for row, parts in enumerate(found):
        real = whole.weights[row] > 0
        assert parts == dict(zip(whole.indices[row][real].tolist(), whole.weights[row][real].tolist(), strict=True))
        assert sum(parts.values()) == pytest.approx(1.0, abs=1e-5)


def test_hardly_any_part_needs_more_slots():
    """Of 20,000 drawn minibatches of 512 none has more of a third than the slots that are left for it."""
    slots = most_slots(512, 4000, 12_000)
    drawn = np.random.default_rng(0).hypergeometric(4000, 8000, 512, 20_000)
    assert drawn.max() <= slots < 512 * 0.45
    assert most_slots(512, 12_000, 12_000) == 512
    assert most_slots(10, 0, 50) >= 1
