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

from longstride.version import __version__

if TYPE_CHECKING:
    from longstride.api.evaluate import EvaluationTable, evaluate
    from longstride.api.load_policy import load_policy
    from longstride.api.train import TrainingRun, train
    from longstride.config import Config as Hyperparameters
    from longstride.errors import SimulatorError, UserError
    from longstride.learning.algorithms.interface import Algorithm, Loss
    from longstride.policies.families.register import Network, add_network
    from longstride.policies.families.torch_family import TorchFamily
    from longstride.policies.loaded_policy import LoadedPolicy
    from longstride.policies.spec import Family
    from longstride.process.recommend.load_recommender import load_recommender
    from longstride.process.recommend.recommender import Recommender
    from longstride.simulators.check import check_simulator
    from longstride.simulators.gym.adapter import to_gymnasium
    from longstride.simulators.simulator import Simulator
    from longstride.simulators.spaces import Box, Discrete, MultiDiscrete
    from longstride.training.callbacks import Callback, StopTraining

__all__ = [
    "Algorithm",
    "Box",
    "Callback",
    "Discrete",
    "EvaluationTable",
    "Family",
    "Hyperparameters",
    "LoadedPolicy",
    "Loss",
    "MultiDiscrete",
    "Network",
    "Recommender",
    "Simulator",
    "SimulatorError",
    "StopTraining",
    "TorchFamily",
    "TrainingRun",
    "UserError",
    "__version__",
    "add_network",
    "check_simulator",
    "evaluate",
    "load_policy",
    "load_recommender",
    "to_gymnasium",
    "train",
]

_SOURCES = {
    "Algorithm": "longstride.learning.algorithms.interface",
    "Box": "longstride.simulators.spaces",
    "Callback": "longstride.training.callbacks",
    "Discrete": "longstride.simulators.spaces",
    "EvaluationTable": "longstride.api.evaluate",
    "Family": "longstride.policies.spec",
    "Hyperparameters": "longstride.config",
    "LoadedPolicy": "longstride.policies.loaded_policy",
    "Loss": "longstride.learning.algorithms.interface",
    "MultiDiscrete": "longstride.simulators.spaces",
    "Network": "longstride.policies.families.register",
    "Recommender": "longstride.process.recommend.recommender",
    "Simulator": "longstride.simulators.simulator",
    "SimulatorError": "longstride.errors",
    "StopTraining": "longstride.training.callbacks",
    "TorchFamily": "longstride.policies.families.torch_family",
    "TrainingRun": "longstride.api.train",
    "UserError": "longstride.errors",
    "add_network": "longstride.policies.families.register",
    "check_simulator": "longstride.simulators.check",
    "evaluate": "longstride.api.evaluate",
    "load_policy": "longstride.api.load_policy",
    "load_recommender": "longstride.process.recommend.load_recommender",
    "to_gymnasium": "longstride.simulators.gym.adapter",
    "train": "longstride.api.train",
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module 'longstride' has no attribute {name!r}")
    value = getattr(import_module(_SOURCES[name]), "Config" if name == "Hyperparameters" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
