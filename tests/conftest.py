"""What is collected where: a bare GPU machine lacks some packages that the tests compare with."""

import atexit
import gc
import os
import shutil
import tempfile
import warnings
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers.card_lock import gpu_file
from helpers.short_runs import pytest_runtest_setup  # noqa: F401

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # torch's threads would spin while other workers compute
os.environ["COLUMNS"] = "200"  # pytest-xdist says 80, which cuts the tables that tests read
os.environ["LONGSTRIDE_REPORT"] = "off"  # hundreds of trainings; those of tests/report ask for theirs
os.environ.setdefault(  # kernels of this working tree, apart from the user's own; `make clean` removes them
    "LONGSTRIDE_KERNEL_CACHE", str(Path(__file__).resolve().parents[1] / ".pytest_cache" / "kernels")
)

if "LONGSTRIDE_STATE" not in os.environ:  # of fixtures that several files share; a file has its own, see below
    os.environ["LONGSTRIDE_STATE"] = tempfile.mkdtemp(prefix="longstride_tests_")  # workers have that of the session
    atexit.register(shutil.rmtree, os.environ["LONGSTRIDE_STATE"], ignore_errors=True)

os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # thousands of messages that are not shown

# Numba makes objects by the million. They are walked once, at the end of a file, and not after each kernel.
gc.set_threshold(2_000_000, 20, 100)


@pytest.fixture(scope="module", autouse=True)
def _own_state(tmp_path_factory):
    """Let each file begin without known simulators, so that no test passes only because another one ran before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGSTRIDE_STATE", str(tmp_path_factory.mktemp("state")))
        yield


def _compile_in_units():
    """Compile what only tests call from Python as the program compiles kernels: in half the time."""
    from numba.core.dispatcher import Dispatcher

    from longstride.jit_cache import whole_kernel

    def compile_callable(dispatcher, signature):
        return whole_kernel._compile_in_unit(
            dispatcher.targetctx, partial(whole_kernel._UNIT.compile, dispatcher), signature
        )

    Dispatcher.compile = compile_callable


_compile_in_units()


def _lacks(*packages):
    return any(find_spec(package) is None for package in packages)


collect_ignore_glob = []
if _lacks("pydantic", "scipy"):
    collect_ignore_glob += [
        "benchmarks/*",
        "research/*",
        "process/*",
        "simulators/*",
        "training/evaluation/test_process_fidelity.py",
    ]
if _lacks("ciw", "simpy"):
    collect_ignore_glob += ["process/test_against_libraries.py"]

LONGEST = (
    *("commands/test_cli.py", "training/test_trainer.py", "jit_cache/test_processes.py", "commands/test_docs.py"),
    *("training/run_directory/test_disk.py", "simulators/queueing/test_network.py", "learning/test_fake_card.py"),
    *("learning/test_oom_recovery.py", "process/test_published.py", "commands/test_tutorial.py"),
    *("benchmarks/test_scaling.py", "simulators/check/test_check_simulator.py", "benchmarks/test_kill.py"),
    *("process/test_theory.py", "process/test_uncompiled.py"),
    *("rollout/test_guarded_collection.py", "training/test_grpo_training.py", "training/test_memory_training.py"),
    *("learning/steps/test_cuda_graph.py", "research/test_optimum.py", "commands/ab/test_ab.py"),
    *(
        "simulators/test_classic_control.py",
        "longstride/test_in_a_notebook.py",
        "simulators/queueing/test_published_networks.py",
    ),
    *("learning/steps/test_compile.py", "rollout/test_episode_collector.py"),
    "longstride/test_tutorial_notebooks.py",
)
"""The files that take longest; they begin first, so that no worker is left alone with one at the end."""


def pytest_collection_modifyitems(items):
    tests = Path(__file__).parent
    rank = {tests / name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def _has_card():
    import torch

    return torch.cuda.is_available()


@pytest.fixture(scope="module", autouse=True)
def few_objects_to_collect():
    """Freeze what modules, Numba and torch made: recovery from exhausted memory collects everything, for 0.3 s.

    What an earlier file left is not the fault of the test that comes first, so no warning of it is an error there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect(1)
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def one_file_on_the_card(request):
    """Let no two files with GPU tests run at once: they measure memory and time."""
    yield from gpu_file(request.session.items, request.path, _has_card)
