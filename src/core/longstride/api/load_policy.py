"""``longstride.load_policy``: from a run directory to actions, without torch and without the simulator."""

import warnings
from pathlib import Path

import numpy as np

from longstride.policies.loaded_listed import LoadedListPolicy
from longstride.policies.loaded_policy import LoadedPolicy
from longstride.training.evaluation.trained_policy import load_trained_policy
from longstride.training.run_directory.acting_file import draws_by_default


def load_policy(directory: str | Path, seed: int | np.random.Generator = 0) -> LoadedPolicy | LoadedListPolicy:
    """Return the policy of a run; one that scores actions takes a list of them (``POLICY_NETWORK = "pointer"``).

    A newer checkpoint that is damaged is passed over with a warning.

    Args:
        directory: run directory, for the best of the evaluations while it trained, or its last checkpoint without any;
            or a checkpoint directory such as ``runs/inventory/checkpoints/last``.
        seed: seed of the draws of ``policy.act``, or a generator for them.

    The policy draws its actions by default if ``--mode evaluate`` has shown that to be better (``policy.draws``).

    Raises:
        UserError: there is no intact checkpoint of this version.
    """
    damaged: list[str] = []
    policy = load_trained_policy(Path(directory), damaged.append)
    for sentence in damaged:
        warnings.warn(sentence, stacklevel=2)
    kind = LoadedListPolicy if policy.spec.scores_actions else LoadedPolicy
    return kind(policy.spec, policy.actor_params, seed, draws_by_default(Path(directory), policy.actor_params))
