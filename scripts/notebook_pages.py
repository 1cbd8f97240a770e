"""Shows the notebooks of docs/ as pages of the site: a hook of MkDocs, which mkdocs.yml names."""

import json
import re
from pathlib import Path
from typing import Any


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each notebook, next to the notebook itself."""
    from mkdocs.structure.files import File

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(Path(file.abs_src_path).read_text(encoding="utf-8"))
        page = as_markdown(notebook, Path(file.src_uri).name)
        files.append(File.generated(config, file.src_uri.replace(".ipynb", ".md"), content=page))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks lead to their pages, except those for a download."""
    return re.sub(r"\]\(([\w/.-]+)\.ipynb\)(?!\{)", r"](\1.md)", markdown)


def as_markdown(notebook: dict[str, Any], name: str) -> str:
    """Return the text, the code and the results of a notebook as Markdown, with a link to the file ``name``."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code":
            parts += [_fenced(source, "python"), *map(_result, cell["outputs"])]
    title, rest = parts[0].split("\n", 1) if "\n" in parts[0] else (parts[0], "")
    return "\n\n".join([title, f'[Download this notebook]({name}){{: download="" }}', rest, *parts[1:]]) + "\n"


def _result(output: dict[str, Any]) -> str:
    """Return a result of a cell: a table or a figure if it has one, else its text."""
    data = output.get("data", {})
    if "text/html" in data:
        return "<div>" + "".join(data["text/html"]).replace("\n", " ") + "</div>"
    if "image/png" in data:
        return f'<img alt="Figure of the code above" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    return _fenced(
        "".join(output.get("text") or data.get("text/plain") or output.get("traceback", [])).rstrip(), "text"
    )


def _fenced(text: str, language: str) -> str:
    """Return text as a block of code, whatever backticks it holds."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
