"""Every benchmark that is a command finds the others that it imports, when it is typed as its first lines say."""

import ast
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
COMMANDS = [path for path in sorted(BENCHMARKS.glob("*.py")) if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_finds_the_other_benchmarks(path):
    """The root of the project is not on the path of who types it; an import before that line would fail."""
    text = path.read_text()
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module]
    lines = [node.lineno for node in imports if node.module.split(".")[0] == "benchmarks"]
    assert not lines or "sys.path" in "\n".join(text.splitlines()[: min(lines) - 1])
