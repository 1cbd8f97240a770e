"""Predicted bytes of an update, and the power-of-two minibatch that follows."""

from collections.abc import Sequence

from core.simulators.spaces import ActionSpace, Box, Discrete

SAFETY = 0.7
"""Share of the free memory that is planned for; the rest covers the allocator and what the prediction leaves out."""

LARGEST_BATCH = 65_536

_NUMBER = 8 * 4
"""Bytes of one real number of an action: draw, mean and what is made of them."""

_SQUASHED_NUMBER = _NUMBER + 16 * 4 * 4
"""The same where the entropy is a quadrature over 16 points."""


def sample_bytes(
    actor_sizes: Sequence[int],
    critic_sizes: Sequence[int],
    half: bool,
    space: ActionSpace | None = None,
    action_features: int = 0,
) -> int:
    """Return the bytes that one sample of a minibatch needs at the peak of a step.

    Kept for the backward pass: the gathered observation, each hidden activation (and under autocast its half-precision
    form), logits, log-probabilities and mask; at the peak also two gradients of the widest layer.

    Args:
        actor_sizes: layer sizes of the actor.
        critic_sizes: layer sizes of the critic.
        half: whether matrix products run in BF16 or FP16.
        space: of the actions; one choice among the actor's outputs by default.
        action_features: figures per action.
    """
    hidden = sum(actor_sizes[1:-1]) + sum(critic_sizes[1:-1])
    activation_bytes = 2 if half else 4
    widest = max(*actor_sizes, *critic_sizes)
    observation = actor_sizes[0] * (4 + (2 if half else 0))
    heads = _head_bytes(space or Discrete(actor_sizes[-1])) + 16 * 4 + 4 * actor_sizes[-1] * action_features
    # The heads are computed in float32 and keep their inputs in it.
    head_inputs = 4 * (actor_sizes[-2] + critic_sizes[-2]) if half else 0
    return observation + hidden * activation_bytes + heads + head_inputs + 2 * widest * activation_bytes


def _head_bytes(space: ActionSpace) -> int:
    """Return the bytes of a sample's distribution: logits and what is made of them, or means and draws."""
    if isinstance(space, Box):
        return space.outputs * (_SQUASHED_NUMBER if space.squashed else _NUMBER)
    return sum(space.choices) * (6 * 4 + 1) + (len(space.choices) - 1) * 8 * 4


def auto_batch_size(samples: int, free_bytes: int, bytes_per_sample: int, largest: int) -> int:
    """Return the largest power of two that is at most ``samples``, ``largest``, 65,536 and what memory holds.

    Args:
        samples: of a rollout, >= 1.
        free_bytes: memory that nobody uses.
        bytes_per_sample: from :func:`sample_bytes`.
        largest: the user's limit, >= 1.
    """
    fits = int(free_bytes * SAFETY) // bytes_per_sample
    limit = max(1, min(samples, largest, LARGEST_BATCH, fits))
    return 1 << (limit.bit_length() - 1)
