"""Longstride trains policies on long, single-stream simulations. This is its public API.

A simulator::

    from longstride import Box, Discrete, MultiDiscrete, Simulator, check_simulator, to_gymnasium

A run, its evaluation, and the policy on its own::

    from longstride import Hyperparameters, evaluate, load_policy, train

    run = train(Inventory(), Hyperparameters(training_episodes=20), run_directory="runs/inventory")
    table = evaluate(run)
    policy = load_policy("runs/inventory")  # needs neither the simulator's source nor a GPU
    action = policy.act(observation)

Everything else may change without notice. Names are imported when they are used first: a program that loads a policy
does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from core import __version__

if TYPE_CHECKING:
    from core.api.evaluate import EvaluationTable, evaluate
    from core.api.load_policy import load_policy
    from core.api.load_recommender import load_recommender
    from core.api.train import TrainingRun, train
    from core.commands.recommend.recommender import Recommender
    from core.config import Config as Hyperparameters
    from core.errors import SimulatorError, UserError
    from core.policies.loaded_policy import LoadedPolicy
    from core.simulators.check import check_simulator
    from core.simulators.gym.adapter import to_gymnasium
    from core.simulators.simulator import Simulator
    from core.simulators.spaces import Box, Discrete, MultiDiscrete

__all__ = [
    "Box",
    "Discrete",
    "EvaluationTable",
    "Hyperparameters",
    "LoadedPolicy",
    "MultiDiscrete",
    "Recommender",
    "Simulator",
    "SimulatorError",
    "TrainingRun",
    "UserError",
    "__version__",
    "check_simulator",
    "evaluate",
    "load_policy",
    "load_recommender",
    "to_gymnasium",
    "train",
]

_SOURCES = {
    "Box": "core.simulators.spaces",
    "Discrete": "core.simulators.spaces",
    "EvaluationTable": "core.api.evaluate",
    "Hyperparameters": "core.config",
    "LoadedPolicy": "core.policies.loaded_policy",
    "MultiDiscrete": "core.simulators.spaces",
    "Recommender": "core.commands.recommend.recommender",
    "Simulator": "core.simulators.simulator",
    "SimulatorError": "core.errors",
    "TrainingRun": "core.api.train",
    "UserError": "core.errors",
    "check_simulator": "core.simulators.check",
    "evaluate": "core.api.evaluate",
    "load_policy": "core.api.load_policy",
    "load_recommender": "core.api.load_recommender",
    "to_gymnasium": "core.simulators.gym.adapter",
    "train": "core.api.train",
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module 'longstride' has no attribute {name!r}")
    value = getattr(import_module(_SOURCES[name]), "Config" if name == "Hyperparameters" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
