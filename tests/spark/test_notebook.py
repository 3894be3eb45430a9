"""The notebook in `examples/`: its cells run, one after the other, and print what its text says."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "windows.ipynb"


def test_its_cells_run_in_their_order(users: Any, capsys: pytest.CaptureFixture[str]) -> None:
    del users  # The notebook finds this session.
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell.get("outputs") for cell in notebook["cells"])
    names: dict[str, Any] = {"__name__": "__main__"}
    said = []
    try:
        for number, source in enumerate(cells):
            exec(compile(source, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
            said.append(capsys.readouterr().out)

        assert "|EURJPY|            10000|" in said[2]
        counted = [line for line in said[3].splitlines() if "EURUSD" in line]
        assert sum(json.loads(line.replace("'", '"'))["trades"] for line in counted) == 100
        assert "properties of daemons" in said[5] or "properties hold" in said[5]
        page = Path(said[5].splitlines()[-1])
        assert "</html>" in page.read_text()
        assert "agreed" in said[6]
    finally:
        if "spooler" in names:
            names["spooler"].stop()
            names["spooling"].join()
        if "running" in names:
            names["running"].close()
        shutil.rmtree(names["work"], ignore_errors=True)
