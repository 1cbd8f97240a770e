"""What follows from the settings of a run and a simulator on any machine: the policy and the size of a rollout."""

from dataclasses import dataclass
from typing import Any

from core.config import Config
from core.hardware.types import HostRollout
from core.policies.spec import PolicySpec, spec_for
from core.rollout.trajectory import trajectory_bytes
from core.simulators.simulator import Simulator

_USUAL_SAMPLES, _MOST_INSTANCES = 372_000, 1024

_FIRST_STEPS, _STREAMS = 8_192, 32
"""Steps of the first rollout where rollouts grow, and the instances that they come from."""

_SHORTEST_EPISODE = 50_000
"""Steps that a training episode counts for at least, where rollouts grow."""


@dataclass(frozen=True)
class RolloutSize:
    """Size of an iteration's rollout, as far as it is known before.

    Steps are those of each instance, 0 where each plays a whole episode. Where rollouts grow they are the most, and
    ``first`` is the size of the first rollout, all instances together; else it is 0. The reason, a phrase, is for the
    number of instances; the memory is that of the trajectories on the host.
    """

    instances: int
    steps: int
    expected_steps: int
    reason: str
    memory: HostRollout
    first: int = 0
    unit: int = 0

    @property
    def samples(self) -> int:
        """Expected number of samples, at most where rollouts grow."""
        return self.instances * self.expected_steps

    @property
    def counted(self) -> int:
        """Steps that TRAINING_EPISODES counts: those of an iteration or, where rollouts grow, of an episode."""
        return self.unit or self.samples

    @property
    def in_words(self) -> str:
        """Length of an instance's part of the rollout."""
        if self.first:
            return f"{self.first:,} to {self.samples:,} steps an iteration, as noise asks for"
        return f"{self.steps:,} steps an iteration" if self.steps else f"about {self.expected_steps:,} steps an episode"


@dataclass(frozen=True)
class Setup:
    """Settings of a run and what follows from them on any machine; from ``source`` the simulator is built again."""

    config: Config
    simulator: Simulator
    source: dict[str, Any]
    spec: PolicySpec
    size: RolloutSize


def set_up(config: Config, simulator: Simulator, source: dict[str, Any] | None = None) -> Setup:
    """Return what follows from settings and a simulator."""
    widths = config.actor_hidden_size, config.critic_hidden_size
    actor, critic = ((width,) * config.num_hidden_layers for width in widths)
    spec = spec_for(simulator, actor, critic, config.activation)
    return Setup(config, simulator, source or {}, spec, _rollout_size(config, simulator, spec))


def _rollout_size(config: Config, simulator: Simulator, spec: PolicySpec) -> RolloutSize:
    """Return the size of the rollouts that a simulator is trained on.

    The number of instances is the user's; without one it is 1 for rollouts of ROLLOUT_STEPS steps, and otherwise as
    many whole episodes as make a rollout of the usual size.
    """
    if grows(config, simulator):
        return _growing_size(simulator, spec)
    steps = config.rollout_steps or simulator.default_rollout_steps
    expected = steps or simulator.expected_steps or simulator.max_steps
    if config.episodes_per_update:
        instances, reason = config.episodes_per_update, f"EPISODES_PER_UPDATE is {config.episodes_per_update}"
    elif steps:
        instances, reason = 1, f"{steps:,} steps an iteration"
    else:
        instances = min(max(round(_USUAL_SAMPLES / expected), 1), _MOST_INSTANCES)
        reason = f"{instances * expected:,} steps an iteration, about {expected:,} each"
    memory = _memory(spec, instances, steps, expected, simulator)
    return RolloutSize(instances, steps, expected, reason, memory)


def grows(config: Config, simulator: Simulator) -> bool:
    """Return whether rollouts grow with the noise: nobody named a size, and the simulator is a compiled one."""
    named = config.episodes_per_update or config.rollout_steps or simulator.default_rollout_steps
    return config.grow_rollouts and simulator.compiled and not named


def _growing_size(simulator: Simulator, spec: PolicySpec) -> RolloutSize:
    """Return the size of rollouts that grow to the usual number of samples."""
    steps, unit = _USUAL_SAMPLES // _STREAMS, max(simulator.expected_steps or simulator.max_steps, _SHORTEST_EPISODE)
    reason = "parts of an episode each, as rollouts grow"
    memory = _memory(spec, _STREAMS, steps, steps, simulator)
    return RolloutSize(_STREAMS, steps, steps, reason, memory, _FIRST_STEPS, unit)


def _memory(spec: PolicySpec, instances: int, steps: int, expected: int, simulator: Simulator) -> HostRollout:
    """Return the host memory of trajectories."""
    rows = steps or simulator.max_steps
    return HostRollout(
        copies=instances,
        decisions=expected,
        rows=rows,
        at_most=not steps and simulator.expected_steps is None,
        bytes=instances * trajectory_bytes(spec, expected),
        pinned_bytes=instances * trajectory_bytes(spec, rows, cuts=steps),
    )
