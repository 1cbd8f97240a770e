"""The scenarios of ``--mode whatif``: the unchanged process, files, and changes in words, which become files."""

import re
from pathlib import Path

from longstride.errors import UserError
from longstride.process.changes.apply import apply_changes
from longstride.process.load import find_scenario
from longstride.process.scenario.scenario import Scenario
from longstride.process.scenario_file import scenario_content
from longstride.process.whatif.compare import Variant
from longstride.training.run_directory.files import write_json
from longstride.training.run_directory.ownership import is_own_run, is_same_file
from longstride.training.run_directory.read_json import object_in

AS_IT_IS = "as it is"
_LONGEST_NAME = 60


def variants_of(base: Scenario, files: list[str], changes: list[str], folder: Path) -> list[Variant]:
    """Return the unchanged process, then scenario files, then changes, whose scenarios go into a folder.

    Raises:
        UserError: there is nothing to compare, two scenarios have the same name, or a file or change is not valid.
    """
    found = [Variant(AS_IT_IS, base)]
    for name in files:
        scenario = find_scenario(name)
        _require_comparable(base, scenario, name)
        found.append(Variant(Path(name).stem, scenario, [], name))
    for number, text in enumerate(changes, 1):
        changed = apply_changes(base, text)
        path = folder / f"{number}-{file_name(text)}.json"
        found.append(Variant(" ".join(text.split()), changed.scenario, changed.sentences, str(path)))
    names = [variant.name for variant in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise UserError(f"Two scenarios are called {twice!r}; rename a file, or leave one out.")
    if len(found) == 1:
        raise UserError(
            "--mode whatif compares scenarios: name changes with --change TEXT, for example --change 'people +1 "
            "analyst', or files with --scenario FILE FILE ..."
        )
    return found


def require_scenarios_replaceable(variants: list[Variant], changed: int, directory: Path) -> None:
    """Check that the scenarios of the last ``changed`` variants replace no file that was read or belongs to the user.

    Outside of a run directory a file belongs to the user unless it is a scenario.

    Raises:
        UserError: a scenario would replace such a file.
    """
    read, own = variants[: len(variants) - changed], is_own_run(directory)
    for path in (Path(variant.file) for variant in variants[len(variants) - changed :]):
        if any(is_same_file(variant.file, path) for variant in read):
            raise UserError(f"{path} is read and would be overwritten; copy it to another folder, and name that one.")
        if path.parent.is_symlink():
            raise UserError(f"{path.parent} is a symbolic link, and links are not followed there; move it away.")
        if path.exists() and not own and "time_unit" not in object_in(path):
            raise UserError(f"{path} was not written by Longstride; move it away, or name a new --run-directory.")


def write_variants(variants: list[Variant], changed: int) -> list[str]:
    """Write the scenarios of the last ``changed`` variants; return a line about each."""
    lines = []
    for variant in variants[len(variants) - changed :]:
        path = Path(variant.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, scenario_content(variant.scenario))
        lines.append(f"{variant.name}: {'; '.join(variant.changes)}. Scenario: {path}.")
    return lines


def _require_comparable(base: Scenario, other: Scenario, name: str) -> None:
    if base.time_unit != other.time_unit:
        raise UserError(
            f"Scenario {name} counts time in {other.time_unit}, the process as it is in {base.time_unit}; write both "
            "in the same unit."
        )


def file_name(text: str) -> str:
    """Return changes in words as the name of a file, without its ending."""
    words = re.sub(r"(?<!\d)-(?=\s*\d)", "minus-", text.lower()).replace("+", "plus-").replace("%", "-percent")
    return re.sub(r"\W+", "-", words).strip("-")[:_LONGEST_NAME]
