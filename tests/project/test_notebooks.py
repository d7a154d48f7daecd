"""The notebooks: every cell runs, and shows something."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest

import steer

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_name_verbs_that_there_are_and_no_output_is_kept(path: Path):
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert len(cells) > 5
    for cell in cells:
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "steer":
                assert node.attr in steer.__all__
        assert not cell.outputs


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # what Jupyter's own packages warn of is theirs
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_shows_something(path: Path, tmp_path: Path):
    from nbclient import NotebookClient

    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [cell for cell in book.cells if cell.cell_type == "code" and cell.outputs]
    assert len(shown) == sum(cell.cell_type == "code" for cell in book.cells)
    pages = [output.data.get("text/html", "") for cell in shown for output in cell.outputs if "data" in output]
    assert sum("<img" in page for page in pages) >= 6
    assert sum("<table" in page for page in pages) >= 8
