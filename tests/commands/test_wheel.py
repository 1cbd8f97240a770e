"""The wheel that a user installs: everything that a run needs is in it, and nothing else has to be near."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest

from longstride import __version__

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")


def _setuptools():
    """Return the major version of setuptools; 0 without it."""
    try:
        return int(version("setuptools").split(".")[0]) if find_spec("pip") else 0
    except PackageNotFoundError:
        return 0


pytestmark = pytest.mark.skipif(_setuptools() < 77, reason="needs pip and setuptools >= 77 beside the tests")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build from a copy, which has no build/ of before; return the unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src" / "core", folder / "src" / "core", ignore=LEFT_OUT)
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    done = subprocess.run([*pip, "-w", folder / "out", folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "out").glob("longstride-*.whl")
    zipfile.ZipFile(path).extractall(folder / "unpacked")
    return folder / "unpacked"


def files_of(source):
    files = [p.relative_to(source) for p in (source / "longstride").rglob("*")]
    return {str(p) for p in files if (source / p).is_file() and "__pycache__" not in p.parts}


def test_every_file_of_the_packages_is_in_the_wheel(wheel):
    wanted = files_of(ROOT / "src" / "core")
    assert any(name.endswith("loan_desk.json") for name in wanted)
    assert "longstride/py.typed" in wanted
    assert files_of(wheel) == wanted


def test_the_public_api_is_in_the_wheel(wheel, tmp_path):
    code = "import longstride; from longstride import load_policy; print(longstride.__file__, longstride.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment)
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    version = next(line for line in metadata.read_text().splitlines() if line.startswith("Version: "))
    assert done.stdout.split() == [str(wheel / "longstride" / "__init__.py"), version.removeprefix("Version: ")]


def test_the_command_is_named_in_the_wheel(wheel):
    (file,) = wheel.glob("*.dist-info/entry_points.txt")
    assert file.read_text().split("\n")[:3] == [
        "[console_scripts]",
        "longstride = longstride.__main__:run",
        "longstride-torchrun = longstride.learning.distributed.loopback:main",
    ]


def test_an_index_shows_the_readme_with_links_that_work_there(wheel):
    (file,) = wheel.glob("*.dist-info/METADATA")
    fields, _, description = file.read_text(encoding="utf-8").partition("\n\n")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pattern = r'\]\(([^)\s]*)\)|(?:src|href)="([^"]*)"'
    links = ["".join(found) for found in re.findall(pattern, description)]
    assert len(links) == len(re.findall(pattern, readme)) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert "\nLicense-Expression: Apache-2.0\n" in fields


def test_the_citation_names_this_version_and_the_address_of_the_project():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    setup = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    assert f"version: {__version__}" in lines
    assert f"repository-code: {re.search('^url = (.*)$', setup, re.MULTILINE)[1]}" in lines


def run_installed(wheel, folder, *arguments):
    """Run what the installed command runs, in a folder of its own with nothing but the wheel on the path."""
    code = "import sys, longstride.cli as c; sys.argv[0] = 'bin/longstride'; print(c.__file__); sys.exit(c.installed())"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    assert done.stdout.startswith(str(wheel))
    return done


def test_the_loan_desk_is_planned_far_from_the_source_tree_and_sentences_name_the_command(wheel, tmp_path):
    done = run_installed(wheel, tmp_path, "--mode", "plan", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "Run it: bin/longstride --mode train --device cpu" in done.stdout
    assert "scripts/train.py" not in done.stdout
    assert (tmp_path / "plan.json").exists()


def test_hyperparameters_of_the_working_folder_count(wheel, tmp_path):
    (tmp_path / "hyperparameters.py").write_text("GAMA = 1\n")
    done = run_installed(wheel, tmp_path, "--mode", "plan")
    assert (done.returncode, done.stderr) == (
        2,
        "error: hyperparameters.py: GAMA is unknown; did you mean GAMMA?\n",
    )
