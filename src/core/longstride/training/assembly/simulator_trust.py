"""Whether the Python source of a run's simulator may run: the user has to have named it, and it must be unchanged.

A run directory may come from anybody, and it names the file of its simulator. So that name alone runs nothing. A
simulator that this user has trained on is remembered outside of all run directories.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longstride.config import Config
from longstride.errors import UserError
from longstride.escaping import shell_word
from longstride.settings import Settings
from longstride.simulators.gym.adapter import PREFIX
from longstride.simulators.loading import is_built_in
from longstride.simulators.source_files import (
    SOURCE_FILE,
    SOURCE_SHA256,
    is_of_a_program,
    located,
    main_file,
    recorded_source,
    source_sha256,
)
from longstride.training.run_directory.checkpoint import unseal
from longstride.training.run_directory.directory import RunDirectory, checkpoint_files
from longstride.training.run_directory.files import write_json

STATE = "LONGSTRIDE_STATE"
"""Environment variable: the folder that remembers the user's simulators; with ``off`` nothing is remembered."""

_KEPT = 1000
"""Simulators that are remembered at most, those that were trained on last."""


@dataclass(frozen=True)
class Consent:
    """What the user says about running the source of a run's simulator."""

    named: bool = False  # whether this command or call names the simulator
    trusted: bool = False  # whether it has --trust-simulator
    from_python: bool = False  # whether it is a call of the Python API


def require_trusted(source: Mapping[str, Any], where: Path | str, consent: Consent) -> None:
    """Check that the source of a run's simulator may run.

    Code of this package and of Gymnasium's own environments may. A user's source may if the user names it now or has
    trained on just this source, and if its digest is that of the checkpoint.

    Args:
        source: ``"simulator"``, the name, and the digest that the checkpoint recorded.
        where: run directory or checkpoint, for the sentence.
        consent: what the user says.

    Raises:
        UserError: it may not, or it is not there.
    """
    name = str(source.get("simulator"))
    if is_of_a_program(name):
        raise UserError(_of_a_program(name, where))
    if consent.trusted or is_built_in(name):
        return
    file = _file_of(name)
    digest, recorded, known = source_sha256(name), str(source.get(SOURCE_SHA256, "")), _known().get(_key(source))
    consented, same = consent.named or known == digest, recorded == digest
    if consented and same:
        return
    trained = str(source.get(SOURCE_FILE, file))
    if not same and recorded and trained != str(file):
        why = f"The run in {where} was trained on {trained}, and {file} is another file"
    elif not consented and known is None:
        why = f"The run in {where} would run {file or name}, which you have not named"
    elif not consented:
        why = f"{file}, which the run in {where} would run, has changed since you trained on it"
    elif recorded:
        why = f"{file} or a module that it imports has changed since the run in {where} was trained"
    else:
        why = f"The checkpoint in {where} has no digest of {file} to compare with"
    raise UserError(f"{why}; if you trust it, {_ways(name, consent, same)}.")


def require_trusted_run(config: Config, named: Settings, trust: bool) -> None:
    """Check that the simulator that a run's settings name may run, as :func:`require_trusted` does.

    Args:
        config: settings of the run, whose names are not the user's words.
        named: settings of this command.
        trust: whether the command has --trust-simulator.

    Raises:
        UserError: it may not.
    """
    directory = Path(config.run_directory)
    same = named.config.simulator == config.simulator and named.sources["simulator"] in ("flag", "file")
    source = {"options": config.simulator_options, **saved_source(directory, config.simulator)}
    require_trusted(source | {"simulator": config.simulator}, directory, Consent(same, trust))


def saved_source(directory: Path, simulator: str) -> dict[str, str]:
    """Return digest and path of the simulator's source in a run's newest readable checkpoint, under their keys.

    In a run without any such checkpoint there is nothing to compare with, so they are the present ones.
    """
    for file in checkpoint_files(RunDirectory(directory).checkpoints("last")):
        try:
            source = unseal(file.read_bytes())["source"]
            return {
                SOURCE_SHA256: "",
                **{key: str(source[key]) for key in (SOURCE_SHA256, SOURCE_FILE) if key in source},
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
    return recorded_source(simulator)


def located_run(run: Settings, named: Settings) -> Settings:
    """Return the settings of a run with its simulator by the path of its file, if its name finds another one here.

    Args:
        run: settings of the run.
        named: settings of this command; a simulator that they name is taken.
    """
    config = run.config
    if named.is_flag("simulator") or is_built_in(config.simulator):
        return run
    saved = saved_source(Path(config.run_directory), config.simulator)
    source, note = located({**saved, "simulator": config.simulator})
    if not note:
        return run
    return run.changed({"simulator": source["simulator"]}, run.sources["simulator"], [note])


def remember_simulator(source: Mapping[str, Any]) -> None:
    """Remember that the user has trained on a simulator; a folder that cannot be written is no error."""
    path = _state_file()
    if path is None or is_built_in(str(source["simulator"])):
        return
    known = _known()
    known.pop(_key(source), None)  # so that it becomes the last one
    known[_key(source)] = str(source.get(SOURCE_SHA256, ""))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path, {"simulators": dict(list(known.items())[-_KEPT:])})
    except (OSError, UserError):
        return


def _file_of(name: str) -> Path | None:
    """Return the file that a name runs; None of an environment that an installed package registers.

    Raises:
        UserError: there is no such file or module, or the name is of no simulator.
    """
    file, module = main_file(name), name.removeprefix(PREFIX).rpartition(":")[0]
    if file is not None or (name.startswith(PREFIX) and not module):
        return file
    if module.endswith(".py"):
        raise UserError(f"There is no simulator file {module}.")
    raise UserError(f"Cannot import the simulator's module {module or repr(name)}: there is none here.")


def _of_a_program(name: str, where: Path | str) -> str:
    own_name = name.rpartition(":")[2]
    return (
        f"The simulator {own_name} of the run in {where} was defined in a program or a notebook, and only that can "
        f"make it: there, longstride.evaluate({str(where)!r}, simulator) evaluates the run, and "
        f"longstride.train(simulator, run_directory={str(where)!r}, resume=True) continues it; or put the class into "
        f"a file and name that, --simulator FILE.py:{own_name}."
    )


def _ways(name: str, consent: Consent, same: bool) -> str:
    if consent.from_python:
        return f"pass simulator={name!r} or trust_simulator=True" if same else "pass trust_simulator=True"
    return f"name it with --simulator {shell_word(name)} or add --trust-simulator" if same else "add --trust-simulator"


def _key(source: Mapping[str, Any]) -> str:
    """Return what a simulator is remembered by: its file, or its name and options if it has none of its own."""
    name = str(source["simulator"])
    file = main_file(name)
    return str(file) if file else f"{name} {json.dumps(source.get('options', {}), sort_keys=True)}"


def _known() -> dict[str, str]:
    """Return the digests of the simulators that the user has trained on."""
    path = _state_file()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))["simulators"] if path else {}
        return {str(key): str(digest) for key, digest in content.items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _state_file() -> Path | None:
    """Return the file of the simulators that are remembered; None if nothing is."""
    given, home = os.environ.get(STATE, ""), os.environ.get("XDG_STATE_HOME", "")
    if given == "off":
        return None
    if given:
        return Path(given).resolve() / "simulators.json"
    try:
        folder = Path(home) if os.path.isabs(home) else Path.home() / ".local" / "state"
    except RuntimeError:  # this user has no home directory
        return None
    return folder / "longstride" / "simulators.json"
