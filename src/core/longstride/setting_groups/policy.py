"""Settings of the policy."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidatorFunctionWrapHandler, WrapValidator

from longstride.policies.families.families import FAMILIES
from longstride.setting_groups.fields import FIELDS


def _known(name: Any, is_built_in: ValidatorFunctionWrapHandler) -> Any:
    """Return the name of a family: of a program's own, or a built-in one."""
    return name if isinstance(name, str) and name in FAMILIES else is_built_in(name)


if TYPE_CHECKING:
    FamilyName = str
else:
    FamilyName = Annotated[Literal[tuple(FAMILIES)], WrapValidator(_known)]  # the choices of a flag


class Policy(BaseModel):
    """The network of the policy, and its start."""

    model_config = FIELDS

    policy_network: FamilyName = "mlp"
    """Network of the policy. "mlp" sees only the present observation. "mingru" and "transformer" also remember the
    episode, for observations that hide a part of the state (docs/how-to/train-a-policy-with-memory.md). "pointer"
    scores each feasible action by its description, for many people and activities
    (docs/how-to/train-for-any-number-of-people.md); from 1,000 described actions on it is the default."""

    policy_prior: Literal["auto", "rule", "fifo", "spt", "logged", "atc"] = "auto"
    """Rule from which the policy of a process starts. "rule": a rule of thumb that postpones. "fifo", "spt", "logged",
    "atc": like these heuristics; "logged" needs a mined scenario, "atc" an objective with due dates. "auto": tries each
    in short episodes, and keeps the rule unless another is better."""

    actor_hidden_size: int = Field(default=128, ge=1, le=4096)
    """Units of each hidden layer of the actor. Integer 1 .. 4096. Twice the width takes about four times as long at
    every step of the simulation."""

    critic_hidden_size: int = Field(default=256, ge=1, le=16384)
    """Units of each hidden layer of the critic. Integer 1 .. 16384. Larger: slower updates; the simulation is not
    affected."""

    num_hidden_layers: int = Field(default=3, ge=1, le=16)
    """Hidden layers of actor and critic each, or blocks of a transformer. Integer 1 .. 16."""

    context_length: int = Field(default=20, ge=1, le=1024)
    """Observations that a transformer sees, including the present one. Integer 1 .. 1024. Larger: looks further back,
    with more memory and time per step. Other networks ignore this and the next two."""

    attention_heads: int = Field(default=4, ge=1, le=64)
    """Attention heads of each block of a transformer. Integer 1 .. 64. Both hidden sizes must be multiples of twice
    this number."""

    feed_forward_factor: int = Field(default=2, ge=1, le=8)
    """Hidden units in the perceptron of a transformer's block, as a multiple of the hidden size. Integer 1 .. 8. 4 is
    usual on GPUs; 2 keeps the actor's parameters in a core's cache."""

    activation: Literal["relu", "tanh"] = "relu"
    """Activation of hidden layers. "relu" or "tanh". With relu the compiled actor skips the half of each layer that is
    zero."""

    weight_init: Literal["orthogonal", "xavier_uniform", "kaiming_uniform"] = "orthogonal"
    """Initialisation of the layers: "orthogonal", "xavier_uniform" or "kaiming_uniform"."""

    initial_log_std: float = Field(default=0.0, ge=-10, le=5)
    """Logarithm of the initial standard deviation of real-valued actions. In units of the scale of the Box. Float -10
    .. 5. Higher: explores further at first, and more draws are clipped to the bounds."""

    normalise_observations: bool = True
    """Shift and scale observations by running statistics, and clip them to 10 standard deviations; the actor clips them
    to 4 if rollouts grow. Indicators (0/1) are not scaled. One instance plays a rollout for the first statistics before
    the first iteration. False: the simulator must scale its observations, which are still clipped to 10."""

    normalise_rewards: bool = False
    """Divide rewards by the running standard deviation of the discounted return. Advantages are normalised anyway, so
    it only helps if returns vary by less than 1e-6, or if float32 cannot represent their squares."""
