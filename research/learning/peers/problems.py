"""The problems, their thresholds, and the published settings that both sides train with.

Settings have the names and defaults of rl-baselines3-zoo's hyperparams/ppo.yml (commit 00128b5), where ``"lin_0.001"``
is a rate that falls linearly to 0 over the budget.
"""

import math
from dataclasses import dataclass, field
from typing import Any

Settings = dict[str, Any]

DEFAULTS: Settings = {
    "n_envs": 1,
    "normalize": False,
    "batch_size": 64,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "learning_rate": 3e-4,
    "clip_range": 0.2,
    "use_sde": False,
    "sde_sample_freq": -1,
    "log_std_init": 0.0,
    "ortho_init": True,
}


@dataclass(frozen=True)
class Problem:
    """What is learned, and with what.

    Attributes:
        simulator: Longstride's name.
        environment: Gymnasium's id of the same problem.
        threshold: mean return of the last 100 training episodes to reach.
        budget: environment steps after which a run ends without having reached it.
        published: settings of rl-baselines3-zoo.
        gaussian: what Longstride changes in them because it has no state-dependent exploration noise (gSDE); empty
            where the published settings need none. Stable-Baselines3 then trains with both.
    """

    simulator: str
    environment: str
    threshold: float
    budget: int
    published: Settings
    gaussian: Settings = field(default_factory=dict)

    @property
    def ours(self) -> Settings:
        """Longstride's settings, in the names of the zoo."""
        return {**DEFAULTS, **self.published, **self.gaussian}

    @property
    def peers(self) -> dict[str, Settings]:
        """Stable-Baselines3's settings by the name of the variant."""
        published = {"sb3": {**DEFAULTS, **self.published}}
        return published | ({"sb3-gaussian": self.ours} if self.gaussian else {})


PROBLEMS = {
    "cartpole": Problem(
        "cartpole",
        "CartPole-v1",
        475.0,
        100_000,
        {
            "n_envs": 8,
            "n_steps": 32,
            "batch_size": 256,
            "gae_lambda": 0.8,
            "gamma": 0.98,
            "n_epochs": 20,
            "learning_rate": "lin_0.001",
            "clip_range": "lin_0.2",
        },
    ),
    "acrobot": Problem(
        "acrobot",
        "Acrobot-v1",
        -100.0,
        1_000_000,
        {"normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4},
    ),
    "pendulum": Problem(
        "pendulum",
        "Pendulum-v1",
        -200.0,
        200_000,
        {
            "n_envs": 4,
            "n_steps": 1024,
            "gamma": 0.9,
            "learning_rate": 1e-3,
            "use_sde": True,
            "sde_sample_freq": 4,
        },
        gaussian={"use_sde": False, "log_std_init": 0.5},
    ),
    "mountain_car_continuous": Problem(
        "mountain_car_continuous",
        "MountainCarContinuous-v0",
        90.0,
        100_000,
        {
            "normalize": True,
            "n_steps": 8,
            "batch_size": 256,
            "gamma": 0.9999,
            "learning_rate": 7.77e-5,
            "ent_coef": 0.00429,
            "clip_range": 0.1,
            "gae_lambda": 0.9,
            "max_grad_norm": 5.0,
            "vf_coef": 0.19,
            "use_sde": True,
            "log_std_init": -3.29,
            "ortho_init": False,
        },
        gaussian={
            "use_sde": False,
            "log_std_init": 0.5,
            "n_envs": 8,
            "n_steps": 256,
            "batch_size": 64,
            "gamma": 0.999,
            "gae_lambda": 0.98,
            "learning_rate": 3e-4,
            "clip_range": 0.2,
            "ent_coef": 0.0,
            "max_grad_norm": 0.5,
            "vf_coef": 0.5,
            "ortho_init": True,
        },
    ),
}


def rate(value: float | str) -> tuple[float, bool]:
    """Return a rate's first value, and whether it falls linearly to 0."""
    return (float(value.removeprefix("lin_")), True) if isinstance(value, str) else (float(value), False)


def longstride_settings(settings: Settings, budget: int) -> dict[str, Any]:
    """Translate settings into Longstride's names.

    The value loss counts half of the squared error there, so its weight is twice the zoo's; both networks learn at one
    rate, with the usual epsilon of Adam. Where the zoo has no entropy bonus, there is no target of the entropy either.
    For one setting the zoo has no name, the lambda of the critic's targets.
    """
    learning_rate, falls = rate(settings["learning_rate"])
    clip_range, clip_falls = rate(settings["clip_range"])
    return {
        "training_episodes": math.ceil(budget / (settings["n_envs"] * settings["n_steps"])),
        "num_envs": settings["n_envs"],
        "rollout_steps": settings["n_steps"],
        "actor_hidden_size": 64,
        "critic_hidden_size": 64,
        "num_hidden_layers": 2,
        "activation": "tanh",
        "initial_log_std": settings["log_std_init"],
        "normalise_observations": settings["normalize"],
        "learning_rate_actor": learning_rate,
        "learning_rate_critic": learning_rate,
        "adam_epsilon_actor": 1e-5,
        "learning_rate_schedule": "linear" if falls else "constant",
        "gamma": settings["gamma"],
        "discount_per": "decision",
        "gae_lambda": settings["gae_lambda"],
        "value_lambda": 0.98,
        "ppo_clip_param": clip_range,
        "clip_range_schedule": "linear" if clip_falls else "constant",
        "num_epochs": settings["n_epochs"],
        "target_kl": 0.0,
        "entropy_coefficient": settings["ent_coef"],
        "entropy_schedule": "constant",
        "value_coefficient": 2.0 * settings["vf_coef"],
        "max_grad_norm": settings["max_grad_norm"],
        "auto_batch_size": False,
        "batch_size": settings["batch_size"],
        "device": "cpu",
        "simulation_threads": 1,
        "update_threads": 1,
    }
