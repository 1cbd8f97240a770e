"""Bytes of a rollout's columns on the device, and of what depends on the parameters alone."""

import math

from longstride.policies.spec import PolicySpec
from longstride.simulators.spaces import Box


def column_bytes(spec: PolicySpec) -> dict[str, int]:
    """Return the bytes of a sample in each column of a rollout on the device, in the order in which they go up."""
    space, listed = spec.action_space, spec.expected_actions if spec.scores_actions else spec.mask_size
    numbers = space.outputs if isinstance(space, Box) else 2 * len(space.choices)  # float32 numbers or int64 choices
    return {
        "observations": 4 * spec.actor_sizes[0],
        "actions": 4 * numbers,
        "log_probs": 4,
        "masks": spec.mask_size,
        "features": round(4 * listed * spec.action_features),
        "advantages": 4,
        "returns": 4,
        "values": 4,
        **({"lists": 24} if spec.scores_actions else {}),
        **(
            {"begins": 1, "chunks": math.ceil(12 * spec.rows_per_sample + 8 / spec.chunk) + _kept_bytes(spec)}
            if spec.has_memory
            else {}
        ),
    }


def _kept_bytes(spec: PolicySpec) -> int:
    """Return the bytes a sample of states that are kept before every chunk; with steps of context none are."""
    return 0 if spec.context else 4 * -(-state_sizes(spec) // spec.chunk)


def state_sizes(spec: PolicySpec) -> int:
    """Return the values of the states before a chunk, of actor and critic."""
    return spec.state_size + spec.critic_state_size
