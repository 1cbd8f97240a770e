"""Memory of updates as far as it does not depend on the policy."""

SAFETY = 0.7
"""Share of the free memory that is planned for; the rest covers the allocator and what the prediction leaves out."""

LARGEST_BATCH = 65_536

CONTEXT = 1 << 29
"""Bytes that CUDA takes for a process before its first tensor: about 0.5 GiB, unconfirmed; it differs by driver, card
and by the kernels that are loaded, and it is no part of what torch calls allocated."""

DISCOUNTS, ADVANTAGES = 8 + 8, 40
"""Bytes of a sample in NumPy on the host: of its discount and of the critic's lambda; and further ones while the
advantages of one long trajectory are estimated (each sum of float32 and float64 makes a float64)."""

BESIDE_A_GPU = DISCOUNTS + ADVANTAGES + 3 * 4
"""Bytes of a sample on the host while a GPU's update is prepared: the same, with values, advantages and returns."""


def workspace_bytes(capability: tuple[int, int], collects: bool = False) -> int:
    """Return the bytes of torch's cuBLAS workspaces: of the forward and the backward thread, on two streams.

    The second stream is that on which steps are captured. A policy that collects on the GPU has two more.
    These are torch's defaults, not measured here: 32 MiB each
    from compute capability 9.0, else 8 MiB and 128 KiB.
    """
    return (6 if collects else 4) * ((1 << 25) if capability >= (9, 0) else (1 << 23) + (1 << 17))
