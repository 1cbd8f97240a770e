"""The scan of a layer with memory on the CPU, one step after the other; see ``network.py``."""

from numba import njit

from longstride.jit_cache.cache import cached


@cached
@njit(nogil=True)
def scan_steps(kept, added, start, states):  # type: ignore[no-untyped-def]
    """Write states h_t = kept_t h_{t-1} + added_t of C chunks of K steps, h_0 = start.

    Kept, added and states are float[C, K, H], start is float[C, H].
    """
    chunks, steps, units = kept.shape
    for c in range(chunks):
        for j in range(units):
            states[c, 0, j] = kept[c, 0, j] * start[c, j] + added[c, 0, j]
        for t in range(1, steps):
            for j in range(units):
                states[c, t, j] = kept[c, t, j] * states[c, t - 1, j] + added[c, t, j]


@cached
@njit(nogil=True)
def scan_gradients(kept, states, start, gradient, by_kept, by_added, by_start):  # type: ignore[no-untyped-def]
    """Write the derivatives of :func:`scan_steps` for float[C, K, H] derivatives by the states; shapes are its own."""
    chunks, steps, units = kept.shape
    for c in range(chunks):
        for j in range(units):
            by_added[c, steps - 1, j] = gradient[c, steps - 1, j]
        for t in range(steps - 1, 0, -1):
            for j in range(units):
                total = by_added[c, t, j]
                by_kept[c, t, j] = total * states[c, t - 1, j]
                by_added[c, t - 1, j] = gradient[c, t - 1, j] + kept[c, t, j] * total
        for j in range(units):
            by_kept[c, 0, j] = by_added[c, 0, j] * start[c, j]
            by_start[c, j] = by_added[c, 0, j] * kept[c, 0, j]
