"""Every benchmark and every script of research finds what it imports, when it is typed as its first lines say."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "research").glob("*/*.py")])
COMMANDS = [path.relative_to(ROOT) for path in FILES if "__main__" in path.read_text()]


@pytest.mark.parametrize("path", COMMANDS, ids=str)
def test_a_command_finds_the_other_scripts(path):
    """The root of the project is not on the path of who types it; an import before that line would fail."""
    text = (ROOT / path).read_text()
    imports = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module]
    lines = [node.lineno for node in imports if node.module.split(".")[0] in ("benchmarks", "research")]
    assert not lines or "sys.path" in "\n".join(text.splitlines()[: min(lines) - 1])
