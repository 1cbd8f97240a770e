"""--mode staff: searches teams under a policy, retrains it for the best few, and compares them."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.commands.mode import Call
from longstride.errors import UserError, this_command
from longstride.escaping import shell_word
from longstride.process.changes.apply import apply_changes
from longstride.process.front.content import Front, sentences
from longstride.process.front.pair import DEFAULT, Pair, mean_of, read_pair
from longstride.process.front.play import RunPlayer
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
from longstride.process.read_aims import changed
from longstride.process.scenario.aims import SHARE_BEYOND
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.process.staff.finalists import Finalist, choose_finalists, promise_of_teams
from longstride.process.staff.moves import KINDS, Space, Team, make_space
from longstride.process.staff.search import Progress, TeamSearch
from longstride.process.staff.team_player import Acting, TeamPlayer
from longstride.process.whatif.compare import Sampling
from longstride.process.whatif.variants import AS_IT_IS, file_name
from longstride.text import Say, counted, format_duration
from longstride.training.run_directory.files import write_json

SEARCH_SHARE = 0.4
"""Share of --minutes for the search; the rest is for trainings."""

_STREAMS = "staff search"
"""Random streams of the search; the comparison has others, so that the choice of a team does not flatter it."""

_EVERY = 20.0
"""Seconds from a line about the search to the next one."""

_WITH_TARGET = f"cost_per_case,{SHARE_BEYOND}"


@dataclass(frozen=True)
class StaffOptions:
    """Options of the command line that are not settings."""

    process: str | None = None  # scenario or event log; None for that of the settings, or of the checkpoint
    checkpoint: str | None = None  # run of the policy that plays the teams; None to train one
    policy: str | None = None  # rule that plays the teams in place of a policy
    metrics: str | None = None
    moves: str = ",".join(KINDS)
    more: int = 2  # most people of a kind to add
    fewer: int = 2  # most people of a kind to remove
    teams: int = 200  # most teams to play
    search_episodes: int = 4
    finalists: int = 3  # teams to compare in full
    no_retraining: bool = False  # whether the finalists get no policy of their own
    minutes: float | None = None  # time of search and trainings over all calls; None for no limit


@dataclass(frozen=True)
class Staffing:
    """What a search of teams is about."""

    options: StaffOptions
    process: Scenario  # the people as they are, paid on duty
    pair: Pair
    space: Space
    run: Run | None
    trainings: Trainings

    @property
    def objective(self) -> str:
        """Objective of trainings: that of the checkpoint, else the second metric; who is on duty decides the cost."""
        own = self.run.simulator.scenario.aims.objective if self.run else {}
        objective = own or {self.pair.quantities[1]: 1.0}
        return " ".join(f"{name}={weight:g}" for name, weight in objective.items())


def run_staff(options: StaffOptions, call: Call) -> int:
    """Search, retrain and compare what is missing, write staff.json and staff.html, and return the exit code.

    Raises:
        UserError: an option is not valid, a training fails, or the folder holds something else.
    """
    staffing, say, settings = _staffing(options, call), call.say, call.settings
    process, pair, space = staffing.process, staffing.pair, staffing.space
    asked: dict[str, Any] = {
        "metrics": pair.metrics,
        "moves": [c.options for c in space.choices],
        "policy": options.policy,
    }
    asked |= {"checkpoint": options.checkpoint, "search_episodes": options.search_episodes}
    search, sampling = search_folder("staff", settings, process, asked), sampling_of(settings)
    with search.folder.held(say, is_known=False):
        search.folder.write()
        search.write_scenario(process)
        base = base_of(process, settings)
        acting = _acting(staffing, search, say)
        player = TeamPlayer(space, acting, sampling.threads)
        progress = _search(staffing, search, player, settings.config.seed, say)
        beyond = 1.0 - process.aims.target.share if process.aims.target and pair.metrics[1] == SHARE_BEYOND else None
        found = choose_finalists(progress.front(), space.base, options.finalists, beyond)
        named = [Finalist(AS_IT_IS, space.base, "")]
        named += [Finalist(f"team {n}", each.team, space.words(each.team)) for n, each in enumerate(found, 1)]
        trained = _retrain(staffing, search, player, named, say)
        points = []
        for finalist in named:
            records = player.play(finalist.team, sampling)
            kind = "not retrained" if acting.policy else "rule"
            points.append(Point(f"{_player(options)}: {finalist.name}", kind, records, team=finalist.words))
            if finalist.name in trained:
                own = RunPlayer(load_process_run(trained[finalist.name], say), sampling.threads)
                records, _ = own.play(finalist.name, player.scenario(finalist.team), sampling, say)
                place = trained[finalist.name]
                points.append(
                    Point(f"retrained: {finalist.name}", "retrained", records, directory=place, team=finalist.words)
                )
        judged = not (base and base.misses)
        simulator = ProcessSimulator(pair.on(process))
        front = Front(points, pair.metrics, simulator, points[0].name, sampling.episodes, judged)
        said = [*sentences(front), *promise_of_teams(front, process.aims.target), *_about(process, named, progress)]
        tried = [{"team": w, "values": p.values, "seconds": p.took} for w, p in progress.played.items()]
        commands = _commands(staffing, search, named, trained)
        finish(search, front, base, said, commands, call.console, say, teams_played=tried)
    return 0


def _staffing(options: StaffOptions, call: Call) -> Staffing:
    """Read and check what a search is about; nothing is played or written yet."""
    settings, say, seconds = call.settings, call.say, seconds_of(options.minutes)
    for flag, value, least in (
        *(("--more", options.more, 0), ("--fewer", options.fewer, 0), ("--teams", options.teams, 1)),
        *(("--search-episodes", options.search_episodes, 1), ("--finalists", options.finalists, 1)),
    ):
        if not least <= value <= 100_000:
            raise UserError(f"{flag} is {value}; expected {least} or more.")
    kinds = [kind.strip() for kind in options.moves.split(",") if kind.strip()]
    if not kinds or not set(kinds) <= set(KINDS):
        raise UserError(f"--moves is {options.moves!r}; expected some of {', '.join(KINDS)}.")
    if options.checkpoint and options.policy:
        raise UserError("--checkpoint and --policy both say who plays the teams; leave out one of them.")
    run = load_process_run(options.checkpoint, say) if options.checkpoint else None
    if run and not run.policy.spec.scores_actions:
        raise UserError(
            f"--checkpoint {options.checkpoint}: this policy has an output for each pair of person and activity, so it "
            "cannot play other teams; train one with --policy-network pointer, or leave the flag out to train it here."
        )
    process = process_of("staff", settings, options.process, run, say)
    pair = read_pair(options.metrics or (_WITH_TARGET if process.aims.target else DEFAULT), process)
    if process.aims.costs:
        process = changed(process, {"costs": process.aims.costs.model_copy(update={"paid": "on duty"})})
    scenario = pair.on(process)
    if options.policy:
        rules_of(ProcessSimulator(scenario), options.policy)
    space = make_space(scenario, kinds, options.more, options.fewer)
    left = None if seconds is None else (1.0 - SEARCH_SHARE) * seconds
    trainings = common_trainings(settings, call.options, call.file, left)
    staffing = Staffing(options, process, pair, space, run, trainings)
    say(f"People are paid for all hours on duty, busy or not. {counted(len(space.choices), 'choice')} to make.")
    return staffing


def _acting(staffing: Staffing, search: SearchFolder, say: Say) -> Acting:
    """Return what plays the teams; a policy is trained if none is named."""
    run = staffing.run
    if staffing.options.policy:
        return Acting(name=staffing.options.policy)
    if run is None:
        say("Training a policy for the people as they are, which then plays all teams.")
        _train(staffing, search.scenario, search.path / "policy", say)
        run = load_process_run(str(search.path / "policy"), say)
    return Acting(run.policy, run.simulator.scenario, run.simulator.prior)


def _train(staffing: Staffing, scenario: Path, directory: Path, say: Say) -> float:
    more = {"objective": staffing.objective, "policy_network": "pointer"}
    return train_once(directory, staffing.trainings.arguments(scenario, staffing.options.finalists + 1, more), say)


def _search(staffing: Staffing, search: SearchFolder, player: TeamPlayer, seed: int, say: Say) -> Progress:
    """Play the teams of the search that are missing."""
    options, space, metrics = staffing.options, staffing.space, staffing.pair.metrics
    found = TeamSearch(search.path / "journal.log", space, options.teams, seed)
    sampling = Sampling(options.search_episodes, seed, player.threads)
    seconds = seconds_of(options.minutes)
    progress, said = found.progress, time.monotonic()
    how = f"all {space.size} teams" if found.all_of_them else f"{options.teams} of {space.size:,} teams at most"
    before = f", {len(progress.played)} of them played before" if progress.played else ""
    say(f"Playing {how}, {counted(options.search_episodes, 'episode')} each{before}.")

    def play(team: Team) -> tuple[float, float]:
        nonlocal said
        records = player.play(team, sampling, _STREAMS)
        first, second = (mean_of(records, metric) for metric in metrics)
        if progress.played and time.monotonic() - said > _EVERY:
            said = time.monotonic()
            took = format_duration(progress.seconds)
            say(f"  {len(progress.played)} teams in {took}, {len(progress.front())} on the front")
        return first, second

    def has_time() -> bool:
        if seconds is None or not progress.played:
            return True
        return progress.seconds + progress.seconds / len(progress.played) <= SEARCH_SHARE * seconds

    if not found.run(play, has_time):
        say(f"No time for another team: {len(progress.played)} are played.")
    return progress


def _retrain(
    staffing: Staffing, search: SearchFolder, player: TeamPlayer, named: Sequence[Finalist], say: Say
) -> dict[str, str]:
    """Train a policy for each team; return name of the team -> run directory."""
    trained, spent = dict[str, str](), 0.0
    is_first_trained = staffing.run is None and not staffing.options.policy
    if staffing.options.no_retraining:
        return trained
    for finalist in named:
        if finalist.words or not is_first_trained:
            directory = search.path / "teams" / _folder_name(finalist)
            if trained and not staffing.trainings.has_time(spent, len(trained)):
                say(f"No time for another training: {len(trained)} of {len(named)} teams have a policy of their own.")
                break
            directory.parent.mkdir(exist_ok=True)
            file = directory.with_suffix(".scenario.json")
            scenario = changed(player.scenario(finalist.team), {"objective": {}})
            write_json(file, scenario_content(scenario))
            say(f"Training for {finalist.name}: {finalist.words or 'the people as they are'}")
            spent += _train(staffing, file, directory, say)
            trained[finalist.name] = str(directory)
    return trained


def _folder_name(finalist: Finalist) -> str:
    """Return a name that tells teams apart, so that a later call finds their trainings."""
    digest = hashlib.sha256(finalist.words.encode()).hexdigest()[:8]
    return f"{file_name(finalist.words)[:40]}-{digest}" if finalist.words else "as-it-is"


def _player(options: StaffOptions) -> str:
    return options.policy or "policy"


def _about(process: Scenario, named: Sequence[Finalist], progress: Progress) -> list[str]:
    """Return sentences about the teams and the search."""
    lines = []
    for finalist in named[1:]:
        said = "; ".join(apply_changes(process, finalist.words).sentences)
        lines.append(f"{finalist.name[:1].upper()}{finalist.name[1:]}: {said}.")
    cannot = f", {progress.impossible} that cannot do the work" if progress.impossible else ""
    played = f"{len(progress.played)} teams were played in {format_duration(progress.seconds)}{cannot}."
    return [*lines, f"{played} Those above play other episodes than the search did."]


def _commands(
    staffing: Staffing, search: SearchFolder, named: Sequence[Finalist], trained: Mapping[str, str]
) -> list[str]:
    """Return commands that play the teams again, and those of their policies."""
    command, options = this_command(), staffing.options
    own = options.checkpoint or ("" if options.policy else str(search.path / "policy"))
    source = f"--checkpoint {shell_word(own)}" if own else f"--scenario {shell_word(str(search.scenario))}"
    rule = f" --policy {shell_word(options.policy)}" if options.policy else ""
    lines = [f"{command} --mode whatif {source}{rule} --change {shell_word(f.words)}" for f in named if f.words]
    return [*lines, *(f"{command} --mode evaluate --checkpoint {shell_word(d)}" for d in trained.values())]
