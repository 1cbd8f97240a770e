"""What runs in the process of a part, or asks for the facts of the machine.

Usage: python -m benchmarks.gpu_report.child facts FILE
       python -m benchmarks.gpu_report.child part MODULE ARGUMENTS DEVICE FILE DIRECTORY [--small]
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.gpu_report.parts import Figures, Task
from benchmarks.gpu_report.report_file import write_json


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say, and write JSON to the file that they name."""
    if arguments[0] == "facts":
        from benchmarks.gpu_report.facts import facts

        write_json(Path(arguments[1]), facts())
        return 0
    module, values, device, file, directory = arguments[1:6]
    task = Task(device, "--small" in arguments, Path(directory), lambda figures: None)
    return run_part(module, json.loads(values), Path(file), task)


def run_part(name: str, arguments: Figures, file: Path, task: Task) -> int:
    """Measure a part; write its figures as they come, and at last with its problem, if there is one."""
    module, kept = None, {}

    def keep(figures: Figures) -> None:
        kept.update(figures)
        write_json(file, _content(module, kept, "it did not end"))

    try:
        module = importlib.import_module(name)
        keep(module.measure(task._replace(keep=keep), **arguments))
        problem = str(kept.get("problem", ""))
    except Exception as error:  # whatever CUDA, a compiler or a package does: the report goes on
        traceback.print_exc()
        problem = in_words(error)
    write_json(file, _content(module, kept, problem))
    return 1 if problem else 0


def in_words(error: BaseException) -> str:
    """Return an error in one line."""
    first = str(error).strip().splitlines()[:1]
    return ": ".join([type(error).__name__, *first])


def _content(module: ModuleType | None, figures: Figures, problem: str) -> dict[str, Any]:
    try:
        lines = module.lines(figures) if module and figures else []
    except Exception as error:
        traceback.print_exc()
        lines = [f"The figures are in gpu_report.json; their table failed ({in_words(error)})."]
    return {"figures": dict(figures), "lines": lines, "problem": problem}


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # what frees pinned memory and graphs while Python ends may abort the process
