"""Limits that keep the house easy to read: sizes of files, functions, constructors and folders; no circle of files."""

import ast
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "core"
FILES = sorted(path for path in SOURCE.rglob("*.py") if "egg-info" not in str(path))
LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS, MOST_FILES = 300, 60, 7, 14


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports_at_start(path):
    """Return the modules of this project that a file imports when it is imported itself, those for types included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & MODULES.keys()) - {module_of(path)}


def circle(graph):
    """Return a circle of a graph as a list that ends where it begins, or none."""
    done, way = set(), []

    def visit(node):
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        way.append(node)
        for other in sorted(graph[node]):
            if circle := visit(other):
                return circle
        way.pop()
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := visit(node))), [])


def functions():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}", node


def test_no_function_is_long():
    long = {name: node.end_lineno - node.lineno + 1 for name, node in functions()}
    assert {name: lines for name, lines in long.items() if lines > LONGEST_FUNCTION} == {}


def test_no_constructor_takes_many_parameters():
    counts = {
        name: len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]) - 1
        for name, node in functions()
        if node.name == "__init__"
    }
    assert {name: count for name, count in counts.items() if count > MOST_PARAMETERS} == {}


def test_no_folder_is_crowded():
    counts = {}
    for path in FILES:
        counts[path.parent] = counts.get(path.parent, 0) + (path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_files_import_each_other_in_a_circle():
    assert circle({module: imports_at_start(path) for module, path in MODULES.items()}) == []


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
    way = circle({"a": {"b"}, "b": {"a"}})
    assert list(pairwise(way)) == [("a", "b"), ("b", "a")]


def test_no_file_is_too_long():
    lines = {module_of(path): len(path.read_text().splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}
