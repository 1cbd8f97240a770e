"""The simulator that the policy of a checkpoint plays: its own, or another one that flags name."""

from pathlib import Path
from typing import Any

from core.config import Config
from core.errors import UserError
from core.simulators.loading import LoadedSimulator, from_source, prior_of, with_policy_prior
from core.simulators.simulator import Simulator
from core.training.build.run_settings import load_configured

_OF_A_SIMULATOR = ("observation_size", "actions", "action_features", "simulator")
"""What must be the same of a checkpoint's simulator and of the one that its policy plays."""

SIMULATOR_FLAGS = ("simulator", "scenario", "event_log")
"""Flags that name another simulator than that of a checkpoint."""


def simulator_of(
    config: Config, sources: dict[str, str], metadata: dict[str, Any], checkpoint: Path
) -> LoadedSimulator:
    """Return the simulator of a checkpoint's metadata, or the one that flags name, with the options that they name.

    Raises:
        UserError: it cannot be built here, or is another one than that of the checkpoint.
    """
    if any(sources[name] == "flag" for name in SIMULATOR_FLAGS):
        loaded = with_policy_prior(load_configured(config), prior_of(metadata["source"]))
    else:
        changes = config.simulator_options if sources["simulator_options"] == "flag" else {}
        loaded = from_source(metadata["source"], changes)
    require_same_simulator(loaded.simulator, metadata, checkpoint)
    return loaded


def require_same_simulator(simulator: Simulator, metadata: dict[str, Any], checkpoint: Path) -> None:
    """Check that a checkpoint's policy can play a simulator; its class may have moved to another module.

    Raises:
        UserError: the simulator is another one, or its observations or actions are.
    """
    description, policy = simulator.description(), metadata["policy"]
    pairs = {name: (metadata["simulator"].get(name), description.get(name)) for name in _OF_A_SIMULATOR}
    if policy.get("family") == "pointer":  # which plays with any number of actions
        sizes = {"observation_size": simulator.summary_size, "action_features": simulator.description_size}
        pairs = {**{name: (policy.get(name), size) for name, size in sizes.items()}, "simulator": pairs["simulator"]}
    for name, (saved, present) in pairs.items():
        same = _class_name(saved) == _class_name(present) if name == "simulator" else saved == present
        if not same:
            raise UserError(
                f"The checkpoint in {checkpoint} is of another simulator: {name} is {saved} there and {present} here."
            )


def _class_name(simulator: object) -> str:
    return str(simulator).rpartition(":")[2]
