"""--mode whatif: compares policies on a process and on changed ones, and expresses the policy's gain in people."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from longstride.api.checkpoint_simulator import refuse_aims
from longstride.api.compare_policies import require_heuristics, split_names, with_episodes_of_run
from longstride.api.report import report_at_the_end
from longstride.errors import UserError
from longstride.hardware.cpu import detect_cores
from longstride.own_files.marker import mark_folder
from longstride.policies.make_spec import spec_on
from longstride.process.fidelity.base import base_sentences, compare_base
from longstride.process.hooks import ProcessHooks
from longstride.process.kernel.policy_prior import RULE
from longstride.process.load import PROCESS, chosen_tolerance, find_scenario, from_source, with_tolerance
from longstride.process.resamples.play import FEWEST
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import TRAINED, Played, Sampling, play_variants
from longstride.process.whatif.content import Cells, as_json, cells
from longstride.process.whatif.equivalent import Equivalent, equivalent_arrivals, equivalent_people
from longstride.process.whatif.log_errors import RESAMPLES, Mined, log_of_run, with_log_errors
from longstride.process.whatif.sentences import change_sentences, equivalent_sentence
from longstride.process.whatif.variants import AS_IT_IS, require_scenarios_replaceable, variants_of, write_variants
from longstride.settings import Settings
from longstride.terminal import print_table
from longstride.text import Say
from longstride.training.assembly.run_settings import load_configured
from longstride.training.evaluation.trained_policy import TrainedPolicy, trained_policy
from longstride.training.run_directory.checkpoint import load_run, policy_folder
from longstride.training.run_directory.directory import RunDirectory, run_directory_of
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import require_replaceable, require_run_directory

_NOT_PLAYED = "random"
"""Heuristic that is left out by default, since no process works by it."""


@dataclass(frozen=True)
class WhatIfOptions:
    """Options of the command line that are not settings."""

    checkpoint: str | None = None  # run directory or checkpoint folder; None for heuristics alone
    policies: str | None = None  # names of heuristics with commas; None for all but random
    changes: list[str] = field(default_factory=list)  # changes in words, one scenario each
    further_scenarios: list[str] = field(default_factory=list)  # files after the first of --scenario
    cost: float = 0.0  # cost of a person for the length of an episode; 0 if unknown
    report: bool = True  # whether the run's report.html is written again
    resamples: int = RESAMPLES  # logs that are drawn and mined again for the intervals; 0 for none


def run_whatif(settings: Settings, options: WhatIfOptions, console: Console, say: Say) -> int:
    """Compare policies on several scenarios, write whatif.json and the scenarios; return the exit code.

    Raises:
        UserError: the checkpoint, a scenario, a change or a heuristic is not valid.
    """
    if not 0.0 <= options.cost < float("inf"):
        raise UserError(f"--cost-per-person is {options.cost:g}; expected an amount, 0 or more.")
    if options.resamples and options.resamples < FEWEST:
        raise UserError(f"--resamples is {options.resamples}; expected 0, or {FEWEST} or more.")
    if options.checkpoint:
        settings = with_episodes_of_run(settings, Path(options.checkpoint))
    config, base = settings.config, _base(settings, options, say)
    run = run_directory_of(Path(options.checkpoint)) if options.checkpoint else RunDirectory(".")
    directory = RunDirectory(config.run_directory) if config.run_directory else run
    if config.run_directory:
        require_run_directory(directory.path)
    require_replaceable(directory.whatif, ("episodes", "scenarios"))
    variants = variants_of(base.scenario, base.files, options.changes, directory.whatif_scenarios)
    names = _heuristics(ProcessSimulator(base.scenario), options.policies, base.trained is not None)
    require_scenarios_replaceable(variants, len(options.changes), directory.path)
    if config.run_directory:
        mark_folder(directory.path, "run")
    for line in write_variants(variants, len(options.changes)):
        say(line)
    sampling = Sampling(config.evaluation_episodes, config.seed, config.simulation_threads or detect_cores().usable)
    say(f"Playing {sampling.episodes} episodes of each, the same random streams for every policy and scenario.")
    played = play_variants(variants, base.trained, names, sampling, say, base.prior)
    against_log = compare_base(ProcessSimulator(with_tolerance(base.scenario, chosen_tolerance(settings))))
    judged = not (against_log and against_log.misses)
    if judged:
        played = with_log_errors(played, base.mined, options.resamples, sampling, say)
    equivalents = _equivalents(played[0], sampling, say) if judged and base.trained and played[0].best else []
    sentences = _sentences(played, equivalents, options.cost, judged)
    if compared := base_sentences(against_log, base.scenario):
        sentences = {AS_IT_IS: [*compared, *sentences.pop(AS_IT_IS, [])], **sentences}
    write_json(directory.whatif, as_json(played, equivalents, sentences, options.cost, against_log))
    _show(cells(played, judged), played, sentences, console, say)
    say(f"Written to {directory.whatif}.")
    if options.checkpoint and options.report and directory.path == run.path and directory.metrics.is_file():
        report_at_the_end(directory.path, say, played[0].simulator, play_after=0.0)
    return 0


@dataclass(frozen=True)
class _Base:
    """The unchanged process."""

    scenario: Scenario
    files: list[str]  # scenario files to compare with
    trained: TrainedPolicy | None = None
    prior: str = RULE  # prior of the policy's training
    mined: Mined | None = None  # the log that it was mined from, if that is at hand


def _base(settings: Settings, options: WhatIfOptions, say: Say) -> _Base:
    """Return the unchanged process: the checkpoint's, else the first scenario or the one in the settings."""
    files = [settings.config.scenario, *options.further_scenarios] if settings.is_flag("scenario") else []
    if options.checkpoint or files:
        refuse_aims(settings, "a checkpoint or a scenario file")
    if options.checkpoint:
        others = [name for name in ("simulator", "simulator_options") if settings.is_flag(name)]
        if others:
            flag = others[0].removesuffix("s").replace("_", "-")
            raise UserError(f"--{flag}: --checkpoint already names the process as it is; leave out one of the two.")
        tensors, metadata = load_run(policy_folder(Path(options.checkpoint), say), say)
        source = metadata["source"]
        if not isinstance(source, dict) or source.get("simulator") != PROCESS:
            raise UserError(f"--mode whatif changes scenarios; the run in {options.checkpoint} simulates no process.")
        simulator = from_source(source, {})
        trained = trained_policy(tensors, metadata)
        trained = replace(trained, spec=spec_on(trained.spec, simulator))
        mined = log_of_run(settings, Path(options.checkpoint), simulator.scenario, say)
        return _Base(simulator.scenario, files, trained, simulator.prior, mined)
    if files:
        return _Base(find_scenario(files[0]), files[1:])
    loaded = load_configured(settings.config, say)
    for line in loaded.notes:
        say(line)
    if not isinstance(loaded.simulator, ProcessSimulator):
        raise UserError("--mode whatif changes scenarios; SIMULATOR has to be process.")
    log = loaded.simulator.hooks.log if isinstance(loaded.simulator.hooks, ProcessHooks) else None
    return _Base(loaded.simulator.scenario, [], mined=Mined(log, settings.config.log_arrivals) if log else None)


def _heuristics(simulator: ProcessSimulator, policies: str | None, with_policy: bool) -> list[str]:
    if policies is None:
        return [name for name in simulator.heuristics if name != _NOT_PLAYED]
    names = split_names(policies)
    require_heuristics(names, simulator, with_policy)
    return names


def _equivalents(base: Played, sampling: Sampling, say: Say) -> list[Equivalent]:
    """Return the policy's equivalents in people and in arrivals, each if it exists."""
    simulator, policy = base.simulator, base.result.records[TRAINED]
    say(f"  playing {base.best} with more people and with fewer cases")
    found = (find(simulator, base.best, policy, sampling) for find in (equivalent_people, equivalent_arrivals))
    return [equivalent for equivalent in found if equivalent is not None]


def _sentences(
    played: Sequence[Played], equivalents: Sequence[Equivalent], cost: float, judged: bool
) -> dict[str, list[str]]:
    """Return scenario -> sentences; the policy's equivalents belong to the unchanged process."""
    base = played[0]
    sentences = {
        AS_IT_IS: list(dict.fromkeys(equivalent_sentence(base, equivalent, cost) for equivalent in equivalents))
    }
    for of in played[1:]:
        sentences[of.variant.name] = change_sentences(base, of, cost, judged)
    return {name: lines for name, lines in sentences.items() if lines}


def _show(shown: Cells, played: Sequence[Played], sentences: dict[str, list[str]], console: Console, say: Say) -> None:
    print_table(*shown, console)
    for name, lines in sentences.items():
        say(f"{name}:")
        for line in lines:
            say(f"  {line}")
    for message in [message for of in played for message in of.result.messages][:3]:
        say(message)
