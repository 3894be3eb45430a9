"""The pytest plugin, as its users have it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "local.md").read_text()


def example() -> str:
    """The test that the page shows, as a file."""
    return PAGE.partition("```python\n# test_")[2].partition("```")[0].partition("\n")[2]


@pytest.mark.slow
def test_the_test_on_the_page_passes_as_a_user_would_run_it(tmp_path: Path) -> None:
    (tmp_path / "test_trades.py").write_text(example())
    # Where hopring is installed, pytest finds the plugin by itself; named once more, it is still loaded once.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_hopring", "-p", "no:cacheprovider", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_is_named_as_its_module_is() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (entry,) = project["entry-points"]["pytest11"].items()

    assert entry == ("pytest_hopring", "pytest_hopring")


@pytest.mark.slow
def test_an_unused_plugin_imports_nothing_of_hopring() -> None:
    code = "import pytest_hopring, sys; print([m for m in sys.modules if m.startswith('hopring')])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert eval(done.stdout) == []
