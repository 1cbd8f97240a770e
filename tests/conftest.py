"""What is collected where: a bare GPU machine lacks some packages that the tests compare with."""

import os
from importlib.util import find_spec
from pathlib import Path

os.environ["COLUMNS"] = "200"  # pytest-xdist says 80, which cuts the tables that tests read
os.environ.setdefault(  # kernels of this working tree, apart from the user's own; `make clean` removes them
    "LONGSTRIDE_KERNEL_CACHE", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "kernels")
)


def _lacks(*packages):
    return any(find_spec(package) is None for package in packages)


collect_ignore_glob = []
if _lacks("pydantic", "scipy"):
    collect_ignore_glob += ["benchmarks/*", "simulators/*", "training/evaluation/test_process_fidelity.py"]
if _lacks("ciw", "simpy"):
    collect_ignore_glob += ["simulators/process/test_against_libraries.py"]
