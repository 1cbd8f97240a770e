"""What must be the same on all hosts, so that all of them play the same: code, libraries and the simulator."""

import hashlib
import inspect
import platform
import sys
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np

from longstride.errors import UserError
from longstride.jit_cache.source_digest import package_digest
from longstride.simulators.instances import parameters_digest
from longstride.simulators.simulator import Simulator
from longstride.version import __version__

Code = dict[str, str]
"""Versions and digests by name."""

_PROCESSOR = "processor"


def code_here() -> Code:
    """Return versions of this code and its libraries, and the kind of processor."""
    return {
        "Longstride": f"{__version__} ({package_digest()[:12]})",
        "Python": ".".join(map(str, sys.version_info[:2])),
        "NumPy": np.__version__,
        "Numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        _PROCESSOR: processor(),
    }


def processor() -> str:
    """Return the name of the processor, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def require_same_code(host: str, there: Code, here: Code) -> str:
    """Return a sentence about a host whose processor is of another kind; empty if it is of the same.

    Raises:
        UserError: its code or libraries have other versions.
    """
    for name, version in here.items():
        if name != _PROCESSOR and there.get(name) != version:
            raise UserError(
                f"Host {host} has {name} {there.get(name, 'of an unknown version')}, this machine {version}; install "
                "the same version on all hosts, so that they play the same."
            )
    if there.get(_PROCESSOR) == here[_PROCESSOR]:
        return ""
    return (
        f"The processor of host {host} is {there.get(_PROCESSOR)}, of this machine {here[_PROCESSOR]}: results are the "
        "same to rounding alone, not to the bit, and depend on which host plays what."
    )


def portable_source(source: dict[str, Any]) -> dict[str, Any]:
    """Return a simulator's source as hosts read it: a file by its whole path.

    Raises:
        UserError: the simulator's class is in no file that another process can import.
    """
    name = str(source.get("simulator", ""))
    module, colon, kind = name.rpartition(":")
    if module == "__main__":
        raise UserError(
            f"The simulator {kind} is defined in the program itself, which hosts cannot import; put it into a file and "
            "name it FILE.py:CLASS."
        )
    if not module.endswith(".py"):
        return source
    return {**source, "simulator": f"{Path(module).resolve()}{colon}{kind}"}


def file_digest(source: dict[str, Any]) -> str:
    """Return the digest of the file that a simulator's source names, empty where it names none.

    It is read before the file runs.

    Raises:
        UserError: there is no such file here.
    """
    module = str(source.get("simulator", "")).rpartition(":")[0]
    if not module.endswith(".py"):
        return ""
    try:
        return hashlib.sha256(Path(module).read_bytes()).hexdigest()
    except OSError:
        raise UserError(f"there is no simulator file {module}; put it at the same path on every host") from None


def simulator_digest(simulator: Simulator) -> str:
    """Return the digest of a simulator's parameters, sizes and the file of its class."""
    file = inspect.getsourcefile(type(simulator))
    content = Path(file).read_bytes() if file and Path(file).is_file() else b""
    digest = hashlib.sha256(content)
    digest.update(repr(sorted(simulator.description().items(), key=lambda item: item[0])).encode())
    digest.update(parameters_digest(simulator.parameters).encode())
    return digest.hexdigest()
