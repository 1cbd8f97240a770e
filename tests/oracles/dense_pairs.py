"""Who can do what by a table of all activities and all people, as it is defined."""

import numpy as np

MIN_PAIR_EVENTS, MIN_COVERAGE = 5, 0.95


def pair_counts(log):
    """Return int64[A, R], the number of events of each pair."""
    counts = np.zeros((len(log.activities), len(log.resources)), np.int64)
    named = log.resource >= 0
    np.add.at(counts, (log.activity[named], log.resource[named]), 1)
    return counts


def choose_pairs(log, automatic):
    """Return bool[A, R], the pairs that are kept, and from how many events on."""
    counts = pair_counts(log)
    counts[automatic] = 0
    best = np.zeros(counts.shape, np.bool_)
    best[np.arange(len(counts)), counts.argmax(1)] = counts.max(1) > 0
    for least in range(MIN_PAIR_EVENTS, 0, -1):
        kept = best | (counts >= least)
        if counts[kept].sum() >= MIN_COVERAGE * counts.sum():
            break
    unassigned = ~kept.any(1) & ~automatic
    kept[unassigned] = kept.any(0)
    return kept, least


def fast_on_few(log, durations):
    """Return bool[A, R], who is ten times as fast as all others on 3 to 99 records, of whom others have 20."""
    shape = (len(log.activities), len(log.resources))
    count, total = np.zeros(shape, np.int64), np.zeros(shape)
    for a, r, seconds in zip(log.activity, log.resource, durations, strict=True):
        if r >= 0:
            count[a, r] += 1
            total[a, r] += seconds
    others = count.sum(1, keepdims=True) - count
    usual = (total.sum(1, keepdims=True) - total) / np.maximum(others, 1)
    few = (count >= 3) & (count < 100) & (others >= 20)
    return few & (total > 0) & (10 * total <= usual * count)
