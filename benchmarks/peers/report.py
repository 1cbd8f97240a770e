"""The facts of the machine that stand next to measured figures."""

import platform
from importlib.metadata import version
from typing import Any

import psutil


def machine_facts() -> dict[str, Any]:
    """Return what is needed to read the figures."""
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": psutil.cpu_count(logical=False),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numba", "numpy")},
    }
