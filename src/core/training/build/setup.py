"""Setup of a run: its settings and what follows from them on any machine."""

from dataclasses import dataclass
from typing import Any

from core.config import Config
from core.policies.spec import PolicySpec, spec_for
from core.simulators.simulator import Simulator
from core.training.build.rollout_size import RolloutSize, rollout_size


@dataclass(frozen=True)
class Setup:
    """Settings of a run and what follows from them on any machine.

    Attributes:
        config: settings of the run.
        simulator: simulator that is trained on.
        source: JSON values from which the simulator is built again.
        spec: architecture of the policy.
        size: size of an iteration's rollout.
    """

    config: Config
    simulator: Simulator
    source: dict[str, Any]
    spec: PolicySpec
    size: RolloutSize


def set_up(config: Config, simulator: Simulator, source: dict[str, Any] | None = None) -> Setup:
    """Return what follows from settings and a simulator."""
    actor, critic = (
        (width,) * config.num_hidden_layers for width in (config.actor_hidden_size, config.critic_hidden_size)
    )
    spec = spec_for(simulator, actor, critic, config.activation)
    return Setup(config, simulator, source or {}, spec, rollout_size(config, simulator))
