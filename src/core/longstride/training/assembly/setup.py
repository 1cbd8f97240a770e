"""The setup of a run: its settings, complete, its simulator, and what follows from both on any machine."""

from dataclasses import dataclass
from typing import Any

from longstride.config import Config
from longstride.learning.algorithms.interface import Algorithm
from longstride.learning.schedule import Schedule
from longstride.policies.spec import PolicySpec
from longstride.settings import Settings
from longstride.simulators.loading import LoadedSimulator
from longstride.simulators.simulator import Simulator
from longstride.training.assembly.algorithm import build_algorithm, build_schedule
from longstride.training.assembly.sizes import RolloutSize, policy_spec, rollout_size
from longstride.training.extensions import NO_EXTENSIONS, Extensions

MINIBATCHES = 16
"""Minibatches of the first rollout where rollouts grow, at least, unless the user named their size."""


@dataclass(frozen=True)
class Setup:
    """Settings of a run, its simulator, and what follows from them on any machine."""

    settings: Settings
    loaded: LoadedSimulator
    spec: PolicySpec
    size: RolloutSize
    algorithm: Algorithm
    schedule: Schedule
    extensions: Extensions = NO_EXTENSIONS

    @property
    def config(self) -> Config:
        """Values of the settings."""
        return self.settings.config

    @property
    def simulator(self) -> Simulator:
        """Simulator of the run."""
        return self.loaded.simulator

    @property
    def largest_batch(self) -> int:
        """Most samples of a minibatch: BATCH_SIZE, or less of it where a short run begins with small rollouts."""
        config, first, names = self.config, self.size.first, ("auto_batch_size", "batch_size")
        if not first or any(map(self.settings.is_chosen, names)):
            return config.batch_size
        return min(config.batch_size, max(first // MINIBATCHES, 1))

    @property
    def has_players(self) -> bool:
        """Whether players collect rollouts: on other hosts, or ahead of the update."""
        return bool(self.config.rollout_hosts) or self.config.rollout_lag > 0

    @property
    def source(self) -> dict[str, Any]:
        """JSON values from which the simulator is built again."""
        return self.loaded.source

    def changed(self, **values: Any) -> "Setup":
        """Return the setup of the same run with other values of settings."""
        return set_up(self.settings.changed(values, "changed"), self.loaded, self.extensions)


def set_up(settings: Settings, loaded: LoadedSimulator, extensions: Extensions = NO_EXTENSIONS) -> Setup:
    """Return what follows from settings, as they are, and a simulator.

    Raises:
        UserError: settings contradict each other or the simulator.
    """
    config = settings.config
    group = build_algorithm(config).group_size  # a program's algorithm changes no size
    algorithm = build_algorithm(config, extensions)
    schedule = build_schedule(config, algorithm.coefficients)
    spec = policy_spec(config, loaded.simulator)
    size = rollout_size(config, loaded.simulator, spec, group)
    return Setup(settings, loaded, spec, size, algorithm, schedule, extensions)
