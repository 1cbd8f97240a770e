"""Options that a simulator chooses before a run begins, by what an untrained policy does with each of them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.learning.distributed.ranks import Ranks
from longstride.policies.compiled.forward import align_params
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.mlp.family import MLP
from longstride.policies.make_spec import spec_for
from longstride.policies.spec import PolicySpec
from longstride.simulators.hooks import Chosen, Records, Trial, naming_the_hook
from longstride.simulators.simulator import Simulator
from longstride.text import Say
from longstride.training.assembly.components import new_model
from longstride.training.assembly.setup import Setup
from longstride.training.evaluation.compiled import CompiledPlayer

_NETWORK = (4,)
"""Hidden layers of the policies that play: what they prefer is all that counts."""


def with_chosen_options(setup: Setup, resumed: Mapping[str, Any] | None, ranks: Ranks, say: Say) -> Setup:
    """Return the setup with the options that its simulator chooses, the same on all ranks; that may take minutes.

    ``resumed`` are the settings of the run that continues, None for a new run.

    Raises:
        UserError: the simulator refuses the settings.
    """
    config, simulator = setup.config, setup.simulator
    own = simulator.hooks.own_settings
    if config.policy_prior != "auto" and "policy_prior" not in own:
        prior = config.policy_prior
        raise UserError(f"POLICY_PRIOR is {prior!r}, but only the process simulator has priors; leave it out.")
    if not own:
        return setup
    trial = Trial(resumed, FAMILIES[config.policy_network].scores_actions, partial(play_untrained, config), say)

    def choose() -> Chosen:
        with naming_the_hook(simulator, "choose_options"):
            return simulator.hooks.choose_options(simulator, trial)

    chosen = ranks.from_first(choose)
    for line in chosen.lines:
        say(line)
    return with_choice(chosen, setup)


def with_choice(chosen: Chosen, setup: Setup) -> Setup:
    """Return the setup with what a simulator chose: in the settings, with its origin, and in the simulator.

    No size follows from the choice.
    """
    if not chosen.options:
        return setup
    new = {name: value for name, value in chosen.options.items() if getattr(setup.config, name) != value}
    settings, loaded = setup.settings.changed(new, "simulation"), setup.loaded.with_options(chosen.options)
    return replace(setup, settings=settings, loaded=loaded)


def play_untrained(
    config: Config, simulators: Mapping[str, Simulator], episodes: int, streams: str
) -> dict[str, Records]:
    """Play the policy that training would begin with, greedily, on some simulators whose policies have the same sizes.

    Args:
        config: settings of the run; the network is smaller than theirs.
        simulators: simulators by name.
        episodes: episodes of each.
        streams: name of the random streams.
    """
    first = next(iter(simulators.values()))
    family = FAMILIES[config.policy_network]
    spec = spec_for(first, _NETWORK, _NETWORK, "tanh", family if family.scores_actions else MLP)
    return {name: _play(config, each, spec, episodes, streams) for name, each in simulators.items()}


def _play(config: Config, simulator: Simulator, spec: PolicySpec, episodes: int, streams: str) -> Records:
    model = new_model(config, simulator, spec)
    params: Any = align_params(model.flat[: model.layout.actor_size].numpy(), spec)
    player = CompiledPlayer(simulator, spec, config.simulation_threads or detect_cores().usable)
    return player.play("trained", params, episodes, config.seed, streams)[0]
