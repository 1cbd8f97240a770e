"""Functions of a process simulator that runs, evaluations and reports call."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from longstride.process.choose_prior import PRIOR, choose_prior, prior_of, shortened
from longstride.process.event_logs.event_log import EventLog
from longstride.process.event_logs.refused_rows import write_refused_rows
from longstride.process.fidelity.base import NOT_JUDGED, Base, base_sentences, compare_base
from longstride.process.fidelity.external_share import external_share_sentence
from longstride.process.kernel.policy_prior import RULE
from longstride.process.promise import DualAscent, aims_sentences, late_cases_hint, promise_sentences
from longstride.process.read_aims import changed
from longstride.process.report.section import process_section
from longstride.process.report.trace import traces_of
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import scenario_content
from longstride.process.simulator import ProcessSimulator
from longstride.report.page import Section, Text
from longstride.simulators.hooks import OBJECTIVE, Chosen, Hooks, PlayedEpisode, Records, Trial
from longstride.text import Say
from longstride.training.run_directory.directory import RunDirectory
from longstride.training.run_directory.files import write_atomically, write_json
from longstride.training.run_directory.ownership import is_same_file

_MOST_HEURISTICS = 2
"""Heuristics for which a report shows an episode."""


@dataclass(frozen=True)
class Origin:
    """Origin of a process simulator."""

    scenario_file: str = ""  # file or bundled name of its scenario; empty if it has none
    event_log: str = ""  # file that its scenario was mined from
    log: EventLog | None = None  # its content
    notes: list[str] = field(default_factory=list)  # decisions of the mining, as sentences


class ProcessHooks(Hooks):
    """The hooks of a process simulator.

    Args:
        simulator: process simulator.
        origin: its scenario file or event log.
        is_open: whether a run is still to choose the prior.
    """

    own_settings = (PRIOR,)
    takes_objective = True
    whole_episodes = True  # cut ones leave out the cases that take long

    def __init__(self, simulator: ProcessSimulator, origin: Origin, is_open: bool) -> None:
        self._origin, self._is_open = origin, is_open
        self._base: Base | None = None
        self._ascent = DualAscent()
        self.learns = simulator.scenario.aims.target is not None
        scenario = simulator.scenario
        self.name = scenario.name
        self.notes = [*origin.notes, *aims_sentences(scenario), *late_cases_hint(scenario)]
        self.input_files = [name for name in (origin.scenario_file, origin.event_log) if name]
        self.files_if_refused = origin.log is not None
        shown = [name for name in ("spt", "logged", "fifo") if name in simulator.heuristics]
        self.report_policies = shown[:_MOST_HEURISTICS]

    @property
    def log(self) -> EventLog | None:
        """Event log that the scenario was mined from; None without one, and after :meth:`release`."""
        return self._origin.log

    def choose_options(self, simulator: Any, trial: Trial) -> Chosen:
        """Return the prior: named by settings, known from the resumed run, or the one that plays best."""
        return choose_prior(simulator, self._is_open, trial)

    def with_options(self, simulator: Any, options: Mapping[str, Any]) -> Any:
        """Return the simulator with another prior, or with other weights of the quantities of a process."""
        if OBJECTIVE in options:
            scenario = changed(simulator.scenario, {OBJECTIVE: options[OBJECTIVE]})
            return with_hooks(scenario, simulator.prior, self._origin, self._is_open)
        if simulator.prior == options[PRIOR]:
            return simulator
        return with_hooks(simulator.scenario, options[PRIOR], self._origin)

    def settings_of(self, source: Mapping[str, Any]) -> dict[str, Any]:
        """Return the prior of a checkpoint."""
        return {PRIOR: prior_of(source)}

    def source(self, simulator: Any) -> dict[str, Any]:
        """Return the scenario, and the prior if it is not the usual one."""
        prior = {} if simulator.prior == RULE else {"prior": simulator.prior}
        return {"simulator": "process", "scenario": scenario_content(simulator.scenario), **prior}

    def write_files(self, simulator: Any, folder: Path, seed: int, say: Say) -> list[Path]:
        """Write the scenario; compare a mined one with its event log."""
        paths, log = RunDirectory(folder), self._origin.log
        if not is_same_file(self._origin.scenario_file, paths.scenario):  # a file that is read stays as it is
            write_json(paths.scenario, scenario_content(simulator.scenario))
        sentences = [] if log is None else self._compare(simulator, log, paths, seed, say)
        for sentence in (*sentences, *self._base_sentences(simulator)):
            say(sentence)
        if log is None:
            return [paths.scenario]
        say(f"The mined scenario is {paths.scenario}, the comparison {paths.fidelity_report}.")
        return [paths.scenario, paths.fidelity, paths.fidelity_report]

    def _compare(
        self, simulator: ProcessSimulator, log: EventLog, paths: RunDirectory, seed: int, say: Say
    ) -> Sequence[str]:
        """Write the rows of a log that were left out, and its comparison with the simulation; return sentences."""
        if log.refused:
            write_refused_rows(log.refused, log.unit, paths.refused_rows)
            say(f"The rows that were left out are in {paths.refused_rows}.")
        from longstride.process.fidelity.fidelity import fidelity_report, render_markdown

        say("Comparing log and simulation under the logged allocation habits ...")
        report = fidelity_report(log, simulator, seed=seed)
        write_json(paths.fidelity, asdict(report))
        write_atomically(paths.fidelity_report, render_markdown(report).encode())
        return report.sentences

    def learn(self, simulator: Any, records: Records) -> dict[str, float]:
        """Change the weight of cases beyond the target, and return it."""
        return self._ascent.learn(simulator, records)

    def state(self, simulator: Any) -> dict[str, float]:
        """Return that weight, and the unit of its steps."""
        return self._ascent.state(simulator) if self.learns else {}

    def restore(self, simulator: Any, state: Mapping[str, float]) -> None:
        """Restore :meth:`state`."""
        self._ascent.restore(simulator, state)

    def release(self) -> None:
        """Forget the event log, which may be large."""
        self._origin = replace(self._origin, log=None)

    def short_episodes(self, simulator: Any) -> Any:
        """Return a simulator whose episodes have about as many tasks as those that chose the prior."""
        return shortened(simulator)

    def evaluation_note(self, simulator: Any, records: Mapping[str, Records]) -> str:
        """Return what share of the cycle time no allocation can change, and how the base compares with its log."""
        share = external_share_sentence(records, simulator.scenario) or ""
        aims = [*aims_sentences(simulator.scenario), *promise_sentences(simulator.scenario, records)]
        return " ".join([*aims, *filter(None, [share]), *self._base_sentences(simulator)])

    def withheld(self, simulator: Any) -> str:
        """Return that no verdict is given; empty where one is."""
        return NOT_JUDGED if (base := self._compared(simulator)) and base.misses else ""

    def _base_sentences(self, simulator: Any) -> list[str]:
        """Return how the simulated base compares with the log."""
        base = self._compared(simulator)
        return base_sentences(base, simulator.scenario)

    def _compared(self, simulator: Any) -> Base | None:
        """Return the comparison of the base with the log, simulated once; None for a scenario without a log."""
        if self._base is None:
            self._base = compare_base(simulator)
        return self._base

    def opening(self, simulator: Any, records: Mapping[str, Records]) -> list[str]:
        """Return what people can change, the warnings about the data, and the fidelity of the log."""
        logged = simulator.scenario.logged
        share = external_share_sentence(records, simulator.scenario)
        aims = [*aims_sentences(simulator.scenario), *promise_sentences(simulator.scenario, records)]
        return [
            *aims,
            *([share] if share else []),
            *(logged.warnings if logged else []),
            *self._base_sentences(simulator),
        ]

    def report_section(self, simulator: Any, episodes: Sequence[PlayedEpisode], missing: str) -> Section:
        """Return the section about people, queues and cases in the played episodes."""
        if not episodes:
            return Section("process", "People and cases", [Text([missing], "missing")])
        return process_section(simulator, traces_of(simulator, episodes))


def with_hooks(
    scenario: Scenario, prior: str = RULE, origin: Origin | None = None, is_open: bool = False
) -> ProcessSimulator:
    """Return a process simulator with its hooks; ``is_open`` if the run is to choose the prior."""
    simulator = ProcessSimulator(scenario, prior)
    simulator.hooks = ProcessHooks(simulator, origin or Origin(), is_open)
    return simulator
