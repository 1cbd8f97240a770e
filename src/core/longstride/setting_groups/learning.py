"""Settings of learning."""

from typing import Literal

from pydantic import BaseModel, Field

from longstride.setting_groups.fields import FIELDS


class Learning(BaseModel):
    """The algorithm and its coefficients."""

    model_config = FIELDS

    algorithm: Literal["ppo", "grpo"] = "ppo"
    """Learning algorithm. "ppo" learns from single rollouts with a critic. "grpo" compares rollouts from the same state
    with the same random numbers, without a critic (docs/how-to/choose-an-algorithm.md)."""

    group_size: int = Field(default=8, ge=2, le=1024)
    """Rollouts in a group of "grpo". Integer 2 .. 1024; NUM_ENVS is a multiple of it. More: less noise in each
    comparison, fewer different states."""

    divide_by_group_deviation: bool = False
    """Divide the advantages of a group by their standard deviation. With True, as in the GRPO paper, groups with small
    and large differences have the same weight."""

    kl_coefficient: float = Field(default=0.0, ge=0, le=1e6)
    """Penalty on the reward per unit of log-ratio to the run's initial policy (k1 estimator of the KL divergence).
    Float >= 0; 0 for none. Higher: stays closer to that policy."""

    learning_rate_actor: float = Field(default=3e-4, gt=0, le=1)
    """Adam's learning rate for the actor. Float > 0, <= 1. Higher: faster and less stable; watch approx_kl and
    clip_fraction. If rollouts grow, a factor of 0.05 .. 10 keeps the divergence of the updates near TARGET_KL."""

    learning_rate_critic: float = Field(default=1e-3, gt=0, le=1)
    """Adam's learning rate for the critic. Float > 0, <= 1. Higher: faster and less stable."""

    adam_epsilon_actor: float = Field(default=1e-5, gt=0, le=1)
    """Epsilon in the denominator of Adam, for the actor. Float > 0, <= 1. Higher, such as 1e-3: smaller steps, and less
    noise from parameters with small gradients."""

    learning_rate_schedule: Literal["linear", "constant"] = "linear"
    """Schedule of both learning rates. "linear" lets them fall to zero over the run, "constant" keeps them."""

    horizon: float = Field(default=500.0, ge=2, le=1e9)
    """Number of decisions that the discount factor looks ahead. Float 2 .. 1e9. Higher: sees later consequences, with
    more noise. With DISCOUNT_PER = "time" it is the time of that many decisions, as measured before the first
    iteration."""

    grow_horizon: bool = True
    """Begin with a tenth of HORIZON, and reach all of it halfway through the run, or after a fifth if values
    hold together for so long. Near consequences are then learned first. It applies if rollouts grow, GAMMA is 0,
    episodes exceed ten times HORIZON, and none is terminated."""

    gamma: float = Field(default=0.0, ge=0, le=1)
    """Discount factor, instead of HORIZON. Float 0 .. 1; 0 means exp(-1 / HORIZON) per decision."""

    discount_per: Literal["time", "decision"] = "time"
    """Unit of GAMMA and VALUE_LAMBDA. "time": intervals of simulated time, such as the mean time between two arrivals,
    so that waiting cannot make costs look later. "decision": steps; a simulator without a clock always uses it."""

    gae_lambda: float = Field(default=0.8, ge=0, le=1)
    """Lambda of generalised advantage estimation, per step. Float 0 .. 1. Higher: less bias from the critic, more
    variance."""

    value_lambda: float = Field(default=0.95, ge=0, le=1)
    """Lambda of the critic's targets, per DISCOUNT_PER; where only the critic learns from OUTCOME_DRAWS, as in loaded
    queues, its distance to 1 is a fifth of this one's. Float 0 .. 1. Higher: the critic corrects its errors faster,
    with noisier targets."""

    ppo_clip_param: float = Field(default=0.2, gt=0, le=1)
    """PPO's clip range. Float > 0, <= 1. Lower: smaller, safer policy steps."""

    clip_range_schedule: Literal["linear", "constant"] = "constant"
    """Schedule of the clip range. "linear" lets it fall to zero over the run, "constant" keeps it."""

    num_epochs: int = Field(default=3, ge=1, le=100)
    """Passes over the samples of an iteration; TARGET_KL may end them early. Integer 1 .. 100. More: learns more from
    the same samples, moves further from the policy that collected them, and takes proportionally longer."""

    entropy_coefficient: float = Field(default=0.03, ge=0, le=1)
    """Weight of the entropy bonus at the start; with real-valued actions 0, unless you set another value. Float 0 .. 1.
    Higher: explores longer. 0, also at the end: no bonus, and no ENTROPY_TARGET unless you set one."""

    entropy_schedule: Literal["linear", "constant"] = "linear"
    """Schedule of the entropy bonus. "linear" moves its weight to ENTROPY_COEFFICIENT_FINAL, "constant" keeps it."""

    entropy_coefficient_final: float = Field(default=0.0, ge=0, le=1)
    """Final weight of the entropy bonus with "linear". Float 0 .. 1."""

    entropy_target: float = Field(default=0.5, ge=0, le=1)
    """Initial target for the entropy of a choice of two values, as a share of its maximum; with more values, the others
    are tried as often together. Below the target, the weight of the bonus rises; below half of it, logits become
    smaller at once. The target falls to 0 over the first half of the run, and then the weight falls, too. Float 0 .. 1;
    0 for none. Higher: the policy explores for longer. Real-valued actions have no target."""

    exploring_starts: float = Field(default=0.25, ge=0, le=0.5)
    """Share of the environment instances that repeatedly begin from rarely visited states, rounded to one over a whole
    number. Float 0 .. 0.5; 0 for none. Only if rollouts grow and are collected on the CPU, by a policy without memory.
    Metrics count the other instances."""

    outcome_draws: int = Field(default=16, ge=0, le=64)
    """How often each step is repeated from a copy of its state, with other random numbers: updates, or only their
    critic, learn from means over these outcomes. Integer 0 .. 64; 0 for never. Only if rollouts grow and are collected
    on the CPU, by a policy without memory, and if states take at most 16 KiB and outcomes differ. More: less noise,
    more simulation."""

    value_coefficient: float = Field(default=0.5, gt=0, le=10)
    """Weight of the value loss. Float > 0, <= 10. Actor and critic share no parameters, so it only scales the critic's
    gradient before its clipping."""

    max_grad_norm: float = Field(default=0.5, gt=0)
    """Norm to which the gradients of actor and critic are each clipped. Float > 0."""

    target_kl: float = Field(default=0.01, ge=0)
    """Target for the KL divergence of an update, whose epochs end early above 1.5 times this. Float >= 0; 0 for no
    limit."""
