"""Notebooks as pages of the site."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_SPEC = importlib.util.spec_from_file_location("notebook_pages", ROOT / "scripts" / "notebook_pages.py")
notebook_pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(notebook_pages)


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_page_has_all_text_code_tables_and_figures_of_its_notebook(path):
    notebook = json.loads(path.read_text())
    page = notebook_pages.as_markdown(notebook, path.name)
    assert page.startswith("# ") and f"({path.name})" in page.split("\n")[2]
    for cell in notebook["cells"]:
        assert "".join(cell["source"]).split("\n", 1)[-1].strip() in page
        for data in (output.get("data", {}) for output in cell.get("outputs", [])):
            shown = [form for form in ("text/html", "image/png", "text/plain") if form in data][:1]
            assert all("".join(data[form]).strip().replace("\n", " ") in page.replace("\n", " ") for form in shown)


def test_results_with_backticks_stay_in_their_block_and_links_lead_to_pages():
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["1"], "outputs": [{"output_type": "stream", "text": ["a\n```\n<b>"]}]},
    ]
    page = notebook_pages.as_markdown({"cells": cells}, "a.ipynb")
    assert page.endswith("````text\na\n```\n<b>\n````\n")
    markdown = notebook_pages.on_page_markdown('[x](sub/a.ipynb) [y](a.ipynb){: download="" }')
    assert markdown == '[x](sub/a.md) [y](a.ipynb){: download="" }'
