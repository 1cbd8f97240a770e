"""A causal transformer; :mod:`longstride.policies.families.transformer.network` has the formulas."""

from longstride.errors import UserError
from longstride.policies.compiled.network import Network
from longstride.policies.parameter_layout import Matrices
from longstride.policies.spec import Family, PolicySpec, Remembering


def _matrices(spec: PolicySpec, hidden: tuple[int, ...]) -> Matrices:
    """Return the matrix that reads the observation, then four for each block."""
    return [(spec.observation_size, hidden[0]), *(matrix for width in hidden for matrix in block(spec, width))]


def block(spec: PolicySpec, width: int) -> Matrices:
    """Return the matrices of a block: queries, keys and values; what the heads find; the two of its perceptron."""
    hidden = spec.feed_forward_factor * width
    return [(width, 3 * width), (width, width), (width, hidden), (hidden, width)]


def _state_size(spec: PolicySpec, hidden: tuple[int, ...]) -> int:
    """Return the keys and values in the context of each block, and the age of the episode."""
    return 2 * spec.context_length * sum(hidden) + 1


def _reach(spec: PolicySpec) -> int:
    """Return the steps behind on which a step depends, by all blocks one after the other."""
    return max(len(spec.actor_hidden), len(spec.critic_hidden)) * (spec.context_length - 1)


def _require(spec: PolicySpec) -> None:
    """Check that each width can be divided among the heads.

    Raises:
        UserError: one cannot.
    """
    for name, widths in (("ACTOR_HIDDEN_SIZE", spec.actor_hidden), ("CRITIC_HIDDEN_SIZE", spec.critic_hidden)):
        for width in widths:
            if width % (2 * spec.attention_heads):
                raise UserError(
                    f"{name} is {width}, but a transformer with ATTENTION_HEADS = {spec.attention_heads} needs a "
                    f"multiple of {2 * spec.attention_heads}, an even part for each head; change one of them."
                )


def _build_network(spec: PolicySpec) -> Network:
    """Compile the actor."""
    from longstride.policies.families.transformer.compiled import build_transformer  # it takes Numba to import

    return build_transformer(spec)


TRANSFORMER = Family(
    "transformer",
    _matrices,
    _build_network,
    memory=Remembering(_state_size, _reach),
    settings=("context_length", "attention_heads", "feed_forward_factor"),
    require=_require,
)
