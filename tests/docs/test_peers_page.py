"""The page on peers: its program runs as it is printed, and its table of the URL has all parts."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hopring.client import peer_url

PAGE = (Path(__file__).parents[2] / "docs" / "peers.md").read_text()


@pytest.mark.slow
def test_the_program_prints_the_message(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    program = tmp_path / "program.py"
    # A domain of its own: other programs on this host may be in the default one.
    program.write_text(code.replace('"rmp://"', f'"rmp:///{tmp_path.name}"'))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"#anna#127\.0\.0\.1:\d+ b'EURUSD 1\.0842'\n", done.stdout)


def test_the_table_of_the_url_has_all_its_parts() -> None:
    table = PAGE[PAGE.index("| part | default |") :].split("\n\n")[0]
    named = set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))

    assert named - {"address", "port", "domain"} == set(peer_url._PARTS)
