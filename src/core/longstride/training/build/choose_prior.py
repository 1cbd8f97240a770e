"""What an untrained policy of a process follows: the prior whose policy plays best in a short simulation.

The rule of thumb postpones, which loses time where work is sparse. So each prior plays some episodes, as the policy
that a run would begin with, but for a small network. The rule stays unless another one is shown to be better.
"""

import copy
from functools import partial
from statistics import fmean
from typing import NamedTuple

from longstride.config import Config
from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.hardware.types import Machine
from longstride.learning.distributed.ranks import Ranks
from longstride.policies.compiled.forward import align_params
from longstride.policies.families.families import FAMILIES
from longstride.policies.families.mlp.family import MLP
from longstride.policies.make_spec import spec_for
from longstride.policies.spec import PolicySpec
from longstride.simulators.loading import LoadedSimulator, with_policy_prior
from longstride.simulators.process.policy_prior import FIFO, LOGGED, RULE, SPT
from longstride.simulators.process.simulator import ProcessSimulator
from longstride.slow_steps import SlowSteps
from longstride.text import Say, in_words, scale_of
from longstride.training.build.components import new_model
from longstride.training.build.plan import part_of, plan_part, require_memory
from longstride.training.build.run_settings import values_of_a_run
from longstride.training.build.setup import set_up
from longstride.training.evaluation.compiled import CompiledPlayer, Records
from longstride.training.evaluation.evaluate import paired_values
from longstride.training.evaluation.statistics import paired_difference
from longstride.training.run_directory.directory import RunDirectory

EPISODES, MOST_TASKS = 8, 10_000
"""Episodes of the simulation, and about how many tasks of each are played."""

_STREAMS = "policy prior"
"""Random streams of the simulation; no training and no evaluation uses them."""

_NETWORK = (4,)
"""Hidden layers of the policies that play: what they prefer is all that counts."""

AUTO = "auto"


class Start(NamedTuple):
    """What an untrained policy follows, and lines for people."""

    prior: str  # one of ``policy_prior.PRIORS``; ``auto`` where a simulator has none
    lines: list[str]


def find_start(
    config: Config,
    given: LoadedSimulator,
    directory: RunDirectory,
    resume: bool,
    machine: Machine,
    ranks: Ranks,
    say: Say,
) -> Start:
    """Return what an untrained policy follows, the same on all ranks.

    Short episodes decide. They take minutes in a large scenario, so too little memory is found before them.

    Raises:
        UserError: there is too little memory, or as for :func:`choose_prior`.
    """
    if given.scenario is not None:
        first = set_up(config, given.simulator, given.source)
        require_memory(part_of(first, ranks), plan_part(first, machine, ranks), machine, ranks.size)
    with SlowSteps(say) as steps:
        steps.begin("Comparing what an untrained policy may follow in short episodes")
        return ranks.from_first(partial(choose_prior, config, given, directory, resume))


def choose_prior(config: Config, loaded: LoadedSimulator, directory: RunDirectory, resume: bool) -> Start:
    """Return the prior that settings name, that a resumed run began with, or that a simulation finds.

    Raises:
        UserError: the settings name a prior that this simulator does not have.
    """
    prior = config.policy_prior
    if loaded.scenario is None or not isinstance(loaded.simulator, ProcessSimulator):
        if prior != AUTO:
            raise UserError(f"POLICY_PRIOR is {prior!r}, but only the process simulator has priors; leave it out.")
        return Start(AUTO, [])
    _require_habits(loaded.simulator, prior)
    if prior != AUTO:
        return Start(prior, [])
    began = values_of_a_run(directory.path).get("policy_prior", RULE) if resume else AUTO
    return Start(began, []) if began != AUTO else Start(*simulate(config, loaded))


def begin_with(
    start: Start, config: Config, sources: dict[str, str], loaded: LoadedSimulator
) -> tuple[Config, dict[str, str], LoadedSimulator]:
    """Return settings that name the prior, where it comes from, and the simulator with it."""
    if start.prior == config.policy_prior:
        return config, sources, loaded if start.prior == AUTO else with_policy_prior(loaded, start.prior)
    config = config.model_copy(update={"policy_prior": start.prior})
    return config, sources | {"policy_prior": "simulation"}, with_policy_prior(loaded, start.prior)


def simulate(config: Config, loaded: LoadedSimulator) -> tuple[str, list[str]]:
    """Return the best prior, and a line where that is not the rule of thumb."""
    names = [name for name in (RULE, FIFO, SPT, LOGGED) if name != LOGGED or _has_habits(config, loaded)]
    own = _process(with_policy_prior(loaded, RULE))
    family = FAMILIES[config.policy_network]
    spec = spec_for(own, _NETWORK, _NETWORK, "tanh", family if family.scores_actions else MLP)
    player = CompiledPlayer(own, spec, config.simulation_threads or detect_cores().usable)
    records = {name: _play(config, player, _process(with_policy_prior(loaded, name)), spec) for name in names}
    return _judge(records, own)


def _process(loaded: LoadedSimulator) -> ProcessSimulator:
    assert isinstance(loaded.simulator, ProcessSimulator)
    return loaded.simulator


def _play(config: Config, player: CompiledPlayer, simulator: ProcessSimulator, spec: PolicySpec) -> Records:
    """Play the policy that training would begin with, greedily, on the first part of some episodes."""
    model = new_model(config, simulator, spec)
    params = align_params(model.flat[: model.layout.actor_size].numpy(), spec)
    return player.on(shortened(simulator)).play("trained", params, EPISODES, config.seed, _STREAMS)[0]


def shortened(simulator: ProcessSimulator) -> ProcessSimulator:
    """Return a simulator whose episodes end after about ``MOST_TASKS`` tasks, but long after the warm-up."""
    share = min(1.0, MOST_TASKS / simulator.sizes.expected_tasks)
    end = max(share * float(simulator.parameters["horizon"]), 3.0 * float(simulator.parameters["warmup"]))
    short = copy.copy(simulator)
    short.parameters = simulator.parameters.copy()
    short.parameters["horizon"] = min(end, float(simulator.parameters["horizon"]))
    return short


def _judge(records: dict[str, Records], simulator: ProcessSimulator) -> tuple[str, list[str]]:
    """Return the prior with the least mean among those that are shown to be better than the rule, else the rule."""
    metric, better = simulator.main_metric, dict[str, float]()
    for name in records:
        values, others = paired_values(records[name], records[RULE], metric)
        difference = paired_difference(values, others) if len(values) > 1 else None
        if difference is not None and difference.high is not None and difference.high < 0.0:
            better[name] = fmean(values)
    if not better:
        return RULE, []
    prior = min(better, key=lambda name: better[name])
    rule = fmean(record[metric] for record in records[RULE] if metric in record)
    scale = scale_of(simulator.unit_of(metric), rule)
    return prior, [
        f"The policy starts like {prior}, not from the rule of thumb: {scale.show(better[prior])} against "
        f"{scale.show(rule)} {in_words(metric)} in {EPISODES} short episodes (POLICY_PRIOR names another start)."
    ]


def _has_habits(config: Config, loaded: LoadedSimulator) -> bool:
    return "logged" in loaded.simulator.heuristics and not FAMILIES[config.policy_network].scores_actions


def _require_habits(simulator: ProcessSimulator, prior: str) -> None:
    if prior == LOGGED and "logged" not in simulator.heuristics:
        raise UserError(
            "POLICY_PRIOR is 'logged', but the scenario has no habits of a log (observations in service); choose "
            "another one."
        )
