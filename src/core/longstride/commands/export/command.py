"""--mode export: write a trained policy for other programs, and compare its forms on the same steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from longstride.api.checkpoint_simulator import built_in_simulator_of, names_simulator
from longstride.commands.export.folder import ExportFolder
from longstride.commands.export.formats import FORMATS
from longstride.commands.export.forms import c_compiler, c_form, onnx_form, play_compiled, play_torch
from longstride.commands.export.parity import Difference, Played, differences, limit_of
from longstride.commands.export.steps import Steps, random_steps, recorded_steps
from longstride.errors import UserError
from longstride.policies.export.c_source import c_files
from longstride.policies.export.contract import (
    C_HEADER,
    C_SOURCE,
    ONNX,
    README,
    TENSORS,
    contract_of,
    safetensors_bytes,
)
from longstride.policies.export.labels import Labels, read_labels
from longstride.policies.export.readme import readme_of
from longstride.policies.spec import PolicySpec
from longstride.settings import Settings
from longstride.simulators.described import from_description
from longstride.simulators.simulator import Simulator
from longstride.text import Say, counted
from longstride.training.evaluation.trained_policy import trained_policy
from longstride.training.run_directory.acting_file import draws_by_default
from longstride.training.run_directory.checkpoint import MEAN_OF_LATE, load_run, policy_folder
from longstride.training.run_directory.directory import run_directory_of

STEPS = 512
"""Steps on which the forms are compared."""


@dataclass
class _Exported:
    """A policy, what is known of it, and the files that were written so far."""

    spec: PolicySpec
    params: np.ndarray  # float32[*], the actor's part of the flat parameters
    simulator: Simulator | None  # the run's simulator; None where it is not available
    labels: Labels
    title: str  # where the policy comes from
    contract: dict[str, Any]
    folder: ExportFolder
    missing: list[str] = field(default_factory=list)  # sentences about formats that could not be written


def run_export(
    settings: Settings,
    checkpoint: str | None,
    output: str | None,
    formats: Sequence[str] | None,
    console: Console,
    say: Say,
) -> int:
    """Export the policy of a run or checkpoint; None for the folder ``export`` of the run and for all formats.

    Returns:
        0 if all forms compute the same, 1 if one differs.

    Raises:
        UserError: there is no such policy, it cannot be exported, the folder is of something else, or a format that was
            named cannot be written.
    """
    if checkpoint is None:
        raise UserError("--mode export needs --checkpoint DIR, a run or one of its checkpoints.")
    exported = _load(settings, Path(checkpoint), output, say)
    _write(exported, formats or FORMATS, say)
    steps, origin = _steps(exported, settings.config.seed, say)
    same = _compare(exported, steps, origin, console, say)
    _say_how_to_act(exported, say)
    say(f"Written to {exported.folder.path}: {', '.join(sorted(exported.folder.written))}.")
    if exported.missing and formats:
        raise UserError(exported.missing[0])
    return 0 if same else 1


def _load(settings: Settings, checkpoint: Path, output: str | None, say: Say) -> _Exported:
    """Read the policy of a checkpoint and, where it is at hand, its simulator."""
    tensors, metadata = load_run(policy_folder(checkpoint, say), say)
    policy = trained_policy(tensors, metadata)
    spec, params = policy.spec, np.array(policy.actor_params, np.float32)
    if spec.scores_actions:
        raise UserError(
            f"The policy in {checkpoint} scores lists of actions (POLICY_NETWORK = 'pointer'), which is not exported; "
            "use longstride.load_policy, or train another network."
        )
    if not np.isfinite(params).all():
        raise UserError(f"The parameters of the policy in {checkpoint} are not finite; name an earlier checkpoint.")
    simulator, labels = None, Labels()
    try:
        simulator = built_in_simulator_of(settings, metadata, checkpoint).simulator
        labels = read_labels(simulator.labels, spec, type(simulator).__name__)
    except UserError as error:
        if names_simulator(settings) or simulator is not None:
            raise
        labels = _recorded_labels(metadata, spec)
        lacks = "no recorded steps" if any(labels) else "no names and no recorded steps"
        say(f"The run's simulator is not available, so there are {lacks}: {str(error).rstrip('.')}.")
    name, iteration = metadata["simulator"].get("simulator"), metadata["iteration"]
    origin = {"simulator": name, "iteration": iteration, "draws": draws_by_default(checkpoint, policy.actor_params)}
    which = f"iteration {iteration}"
    if metadata.get(MEAN_OF_LATE):
        which, origin[MEAN_OF_LATE] = f"the mean of the late policies up to {which}", True
    title = f"Simulator {name}, {which}, a policy of the family {spec.family.name}."
    contract = contract_of(spec, params, labels, origin)
    folder = ExportFolder(Path(output) if output else run_directory_of(checkpoint).export)
    return _Exported(spec, params, simulator, labels, title, contract, folder)


def _recorded_labels(metadata: dict[str, Any], spec: PolicySpec) -> Labels:
    """Return the names that a checkpoint has of a simulator that does not run here; none if they do not fit."""
    known = from_description(metadata.get("described"))
    try:
        return read_labels(known.labels, spec, "the checkpoint") if known else Labels()
    except UserError:
        return Labels()


def _write(exported: _Exported, formats: Sequence[str], say: Say) -> None:
    """Write the files of the formats; those of an earlier export go."""
    spec, params, folder = exported.spec, exported.params, exported.folder
    folder.begin()
    if "safetensors" in formats:
        folder.write(TENSORS, safetensors_bytes(spec, params))
    if "c" in formats:
        files = c_files(spec, params, exported.labels, exported.title, exported.contract["draws"])
        folder.write(C_SOURCE, files.source.encode())
        folder.write(C_HEADER, files.header.encode())
    if "onnx" in formats:
        try:
            from longstride.policies.export.onnx_model import onnx_bytes

            say("Exporting to ONNX, which takes torch some seconds.")
            folder.write(ONNX, onnx_bytes(spec, params, exported.contract))
        except ImportError as error:
            exported.missing.append(f"There is no {ONNX}, because {_lacks(error)}")
            say(exported.missing[-1])
    exported.contract["files"] = sorted(folder.written)
    folder.write_readme(readme_of(spec, exported.contract, exported.title, sorted(folder.written)))
    folder.write_contract(exported.contract)  # whole also where the comparison fails


def _say_how_to_act(exported: _Exported, say: Say) -> None:
    """Say whether draws are better, and which form gives the likeliest action alone."""
    only = f" {ONNX} returns the most likely action alone; the program in {README} draws from its other output."
    drawn = exported.contract["draws"] and ONNX in exported.folder.written
    say(exported.contract["acting"] + (only if drawn else ""))


def _lacks(error: ImportError) -> str:
    """Return the clause about a package of the extra that is not installed."""
    return f"{error.name or error} is not installed; pip install 'longstride[onnx]' adds onnx, onnxscript, onnxruntime."


def _steps(exported: _Exported, seed: int, say: Say) -> tuple[Steps, str]:
    """Return the steps for the comparison, and where they come from."""
    simulator, spec, params = exported.simulator, exported.spec, exported.params
    if simulator is not None:
        try:
            steps = recorded_steps(simulator, spec, params, STEPS, seed)
            episodes = counted(int(steps.begins.sum()), "episode")
            return steps, f"{STEPS} recorded steps of {type(simulator).__name__} ({episodes})"
        except UserError as error:
            say(f"No steps could be recorded from the run's simulator: {error}")
    return random_steps(spec, params, STEPS, seed), f"{STEPS} random steps with the mean and deviation of the run's"


def _compare(exported: _Exported, steps: Steps, origin: str, console: Console, say: Say) -> bool:
    """Play the steps with all forms, print how they differ, and write the contract with the result."""
    spec, params, folder = exported.spec, exported.params, exported.folder
    reference = play_torch(spec, params, steps)
    forms: dict[str, Played] = {"Numba": play_compiled(spec, params, steps)}
    if ONNX in folder.written:
        _play("ONNX Runtime", forms, lambda: onnx_form(folder.path / ONNX, exported.contract)(steps), say)
    compiler = c_compiler()
    if C_SOURCE in folder.written and compiler:
        with TemporaryDirectory() as scratch:
            forms["C"] = c_form(folder.path / C_SOURCE, compiler, Path(scratch), spec)(steps)
    elif C_SOURCE in folder.written:
        say(f"{C_SOURCE} is not compared: there is no C compiler here (cc, gcc, clang, or CC in the environment).")
    limit = limit_of(reference, steps)
    found = differences(spec, steps, reference, forms, ("ONNX Runtime", "C"))
    exported.contract["parity"] = {
        "steps": origin,
        "reference": "the network in torch",
        "largest_allowed": limit,
        "largest_difference": {name: difference.outputs for name, difference in found.items()},
        "other_actions": {name: difference.actions for name, difference in found.items()},
    }
    folder.write_contract(exported.contract)
    console.print(_table(found, origin, exported.contract["outputs"][1]["name"]))
    bad = [name for name, difference in found.items() if not difference.within(limit)]
    if bad:
        say(
            f"The policy does not compute the same everywhere: {' and '.join(bad)} differ from torch by more than the "
            f"{limit:.2g} that rounding explains. Do not use these files; train in float32, or report the run."
        )
    else:
        say(f"All of them compute the same: no difference above {limit:.2g}, which rounding explains.")
    return not bad


def _play(name: str, forms: dict[str, Played], play: Callable[[], Played], say: Say) -> None:
    try:
        forms[name] = play()
    except ImportError as error:
        say(f"{ONNX} is not compared, because {_lacks(error)}")


def _table(found: dict[str, Difference], origin: str, outputs: str) -> Table:
    table = Table(title=f"Differences from torch on {origin}")
    table.add_column("form")
    for header in (f"largest difference of {outputs}", "other greedy actions", "of these beyond a tie"):
        table.add_column(header, justify="right")
    for name, difference in found.items():
        table.add_row(name, f"{difference.outputs:.2g}", str(difference.actions), str(difference.beyond_ties))
    return table
