"""--mode front: trains policies for several weights of two metrics, and compares them with the rules."""

from dataclasses import dataclass, field
from pathlib import Path

from longstride.commands.mode import Call
from longstride.errors import UserError, this_command
from longstride.escaping import shell_word
from longstride.process.front.content import Front, sentences
from longstride.process.front.pair import DEFAULT, Pair, even_weight, read_pair, read_weights, spread_weights
from longstride.process.front.play import RunPlayer, play_rules
from longstride.process.front.points import Point
from longstride.process.front.search_folder import (
    SearchFolder,
    base_of,
    finish,
    rules_of,
    sampling_of,
    search_folder,
    seconds_of,
)
from longstride.process.front.source import Run, load_process_run, process_of
from longstride.process.front.trainings import Trainings, common_trainings, train_once
from longstride.process.scenario.scenario import Scenario
from longstride.process.simulator import ProcessSimulator
from longstride.process.whatif.compare import Sampling
from longstride.text import Say, counted, in_words

MOST = 40
"""Most weights."""


@dataclass(frozen=True)
class FrontOptions:
    """Options of the command line that are not settings."""

    process: str | None = None  # scenario or event log; None for that of the settings, or of the first checkpoint
    metrics: str = DEFAULT
    points: int = 5  # weights, one training each
    weights: str | None = None  # weights of the second metric in place of ``points``
    minutes: float | None = None  # time of all trainings over all calls; None for no limit
    checkpoint: list[str] = field(default_factory=list)  # runs whose policies are points
    policy: str | None = None  # names of rules with commas; None for all


def run_front(options: FrontOptions, call: Call) -> int:
    """Train what is missing, compare all points, write front.json and front.html, and return the exit code.

    Raises:
        UserError: an option is not valid, a training fails, or the folder holds something else.
    """
    if not 0 <= options.points <= MOST:
        raise UserError(f"--points is {options.points}; expected 0 to {MOST}.")
    settings, say, seconds = call.settings, call.say, seconds_of(options.minutes)
    weights = read_weights(options.weights) if options.weights else []
    runs = [load_process_run(directory, say) for directory in options.checkpoint]
    process = process_of("front", settings, options.process, runs[0] if runs else None, say)
    pair = read_pair(options.metrics, process)
    simulator = ProcessSimulator(pair.on(process))
    names, sampling = rules_of(simulator, options.policy), sampling_of(settings)
    asked = {"metrics": pair.metrics, "weights": weights or options.points}
    search = search_folder("front", settings, process, asked)
    with search.folder.held(say, is_known=False):
        search.write_scenario(process)
        base = base_of(process, settings)
        say(f"Playing {counted(sampling.episodes, 'episode')} of each, the same random streams for all.")
        rules = play_rules(process.name, pair.on(process), names, sampling, say)
        even = even_weight(pair, process, rules.records[rules.usual])
        weights = weights or search.remembered("weights") or spread_weights(even, options.points) * (options.points > 0)
        search.folder.write(weights=weights)
        trainings = common_trainings(settings, call.options, call.file, seconds)
        trained = _train(search, trainings, pair, weights, say)
        points = [*_trained_points(trained, pair, process, sampling, say), *rules.points()]
        points += _checkpoint_points(runs, process, sampling, say)
        judged = not (base and base.misses)
        front = Front(points, pair.metrics, simulator, rules.usual, sampling.episodes, judged)
        said = [*sentences(front), *_notes(pair), *trainings.short(trained), *rules.messages[:3]]
        finish(search, front, base, said, _commands(front), call.console, say, weights=weights)
    return 0


def _train(search: SearchFolder, trainings: Trainings, pair: Pair, weights: list[float], say: Say) -> dict[str, float]:
    """Train a policy for each weight; return run directory -> weight of those that are trained."""
    trained, spent = dict[str, float](), 0.0
    for number, weight in enumerate(weights, 1):
        directory, objective = search.path / f"weight-{weight:g}", _words(pair, weight)
        if trained and not trainings.has_time(spent, len(trained)):
            say(f"No time for another training: {len(trained)} of {len(weights)} weights are trained.")
            break
        say(f"Training {number} of {len(weights)}: {objective}")
        arguments = trainings.arguments(search.scenario, len(weights), {"objective": objective})
        spent += train_once(directory, arguments, say)
        trained[str(directory)] = weight
    return trained


def _trained_points(
    trained: dict[str, float], pair: Pair, process: Scenario, sampling: Sampling, say: Say
) -> list[Point]:
    """Return the trained policies as points, by their weights."""
    points = []
    for directory, weight in sorted(trained.items(), key=lambda item: item[1]):
        run = load_process_run(directory, say)
        name = _words(pair, weight)
        records, _ = RunPlayer(run, sampling.threads).play(name, process, sampling, say)
        points.append(Point(name, "trained", records, pair.objective(weight), directory))
    return points


def _checkpoint_points(runs: list[Run], process: Scenario, sampling: Sampling, say: Say) -> list[Point]:
    """Return the policies of --checkpoint as points.

    Raises:
        UserError: one cannot play the process.
    """
    points = []
    for run in runs:
        records, reason = RunPlayer(run, sampling.threads).play(run.directory, process, sampling, say)
        if reason:
            raise UserError(f"--checkpoint {run.directory}: {reason}")
        objective = run.simulator.scenario.aims.objective
        points.append(Point(f"checkpoint {Path(run.directory).name}", "checkpoint", records, objective, run.directory))
    twice = next((p.name for p in points if [q.name for q in points].count(p.name) > 1), None)
    if twice:
        raise UserError(f"Two runs are called {twice.removeprefix('checkpoint ')!r}; rename one of the folders.")
    return points


def _words(pair: Pair, weight: float) -> str:
    """Return an objective as OBJECTIVE has it."""
    return " ".join(f"{name}={number:g}" for name, number in pair.objective(weight).items())


def _notes(pair: Pair) -> list[str]:
    """Return what a reader has to know about metrics that no policy is trained for."""
    other = [
        f"{in_words(metric)} (policies are trained for {in_words(quantity)})"
        for metric, quantity in zip(pair.metrics, pair.quantities, strict=True)
        if metric not in {f"mean_{quantity}", f"{quantity}_per_case", f"share_{quantity}", f"mean_{quantity}_time"}
    ]
    return [f"Shown is {' and '.join(other)}."] if other else []


def _commands(front: Front) -> list[str]:
    """Return the commands that use the policies on the front."""
    command = this_command()
    own = [point.directory for point in front.on_front if point.directory]
    return [f"{command} --mode evaluate --checkpoint {shell_word(directory)}" for directory in own]
