"""The compiled modules: when they are used, and that they behave exactly like their sources.

The suite itself runs interpreted (see conftest.py); here the compiled modules run in other processes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hopring import compiled

ROOT = Path(__file__).parents[2]
SEEDS = (1, 3, 20004, 20012)
QUICK = "20012"
QUICK_BUG = "fifo-at-once"

HISTORIES = """
from hopring import compiled
from hopring.sim.campaign.runner import run_seed
from hopring.testing.trace import digest
print(compiled.active())
for seed in {seeds}:
    outcome = run_seed(seed)
    print(seed, digest(outcome.history), outcome.events, outcome.broken)
"""

# A struct compiled by mypyc alone has no hash, and == compares identities.
STRUCTS = """
from pickle import dumps, loads
from hopring.ids import NOBODY
from hopring.links.ring.token import Aru
from hopring.links.ring.events import Release
from hopring.links.ring.token import NO_LINES, first_token, next_token
assert type(next_token).__name__ == "builtin_function_or_method"
assert Aru(1) == Aru(1) and hash(Aru(1)) == hash(Aru(1)) and Aru(1) != Aru(2)
assert repr(Aru(1, 2)) == "Aru(value=1, modifier=2)" and Aru(1).replace(value=2) == Aru(2)
assert loads(dumps(Aru(1))) == Aru(1)
unchanged = dict(link_seq=1, link_local=1, flow_control=0, missing=(), active=False, lines=NO_LINES)
idle = next_token(first_token(1), 0, Release(0, 0, 0), **unchanged)
print("quiet", idle.quiet)
"""

PLANTS = f"""
from hopring.sim.campaign.bugs.planting import MisplacedBug, all_bugs, plant
try:
    with plant(all_bugs()["{QUICK_BUG}"]):
        print("planted")
except MisplacedBug as error:
    print(error)
"""

WITHOUT_COMPILER = """
import sys
from pathlib import Path
from compile_core import CannotCompile, compile_core
try:
    compile_core(Path(sys.argv[1]) / "built", Path(sys.argv[1]) / "scratch")
except CannotCompile as reason:
    print(reason)
"""


@pytest.fixture
def built() -> None:
    if not compiled.modules_of(compiled.build_directory(ROOT)):
        pytest.skip("nothing is compiled from these sources: make compile")


def python(
    *arguments: str, pure: bool = False, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HOPRING_PURE": "1" if pure else "0"} | variables
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


def hop_sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "hopring.cli.main", "sim", *arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_compiled_and_interpreted_code_produce_the_same_histories() -> None:
    program = HISTORIES.format(seeds=SEEDS)

    first, *fast = python("-c", program).stdout.splitlines()
    second, *slow = python("-c", program, pure=True).stdout.splitlines()

    assert (first, second) == ("True", "False")
    assert fast == slow
    assert len(fast) == len(SEEDS)


@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_a_compiled_campaign_finds_nothing_broken_and_says_that_it_was_compiled() -> None:
    facts = json.loads(hop_sim("--seeds", "6", "--jobs", "2", "--json").stdout)

    assert (facts["compiled"], facts["seeds"], facts["failures"]) == (True, 6, [])


@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_a_bug_is_planted_in_the_sources_though_there_is_compiled_code() -> None:
    result = hop_sim("--bug", QUICK_BUG, "--start", QUICK, "--jobs", "1", "--json")

    facts = json.loads(result.stdout)
    assert result.returncode == 1
    assert (facts["compiled"], facts["caught_by"]) == (False, "2.11 FIFO messages")
    assert facts["planted_runs"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_planting_in_compiled_code_is_an_error() -> None:
    assert "it is compiled; HOPRING_PURE=1 runs the sources" in python("-c", PLANTS).stdout


@pytest.mark.slow
@pytest.mark.usefixtures("built")
def test_compiled_values_are_compared_by_value_and_can_be_copied() -> None:
    result = python("-c", STRUCTS)

    assert (result.stderr, result.stdout.split()) == ("", ["quiet", "1"])


@pytest.mark.slow
def test_without_a_c_compiler_the_build_says_what_is_missing(tmp_path: Path) -> None:
    result = python("-c", WITHOUT_COMPILER, str(tmp_path), cwd=ROOT / "tools", CC="no-such-compiler")

    assert (result.stderr, result.stdout) == ("", "there is no C compiler (no-such-compiler)\n")
    assert list(tmp_path.iterdir()) == []


def write_record(directory: Path, package: Path, **sources: str) -> None:
    directory.mkdir()
    for name, text in sources.items():
        (package / f"{name}.py").write_text(text)
    digests = {f"{name}.py": compiled.digest_of(package / f"{name}.py") for name in sources}
    record = {"modules": [f"hopring.{name}" for name in sources], "sources": digests}
    (directory / compiled.RECORD).write_text(json.dumps(record))


def test_compiled_modules_of_these_very_sources_are_used(tmp_path: Path) -> None:
    write_record(tmp_path / "built", tmp_path, one="1", two="2")

    assert compiled.modules_of(tmp_path / "built", tmp_path) == ["hopring.one", "hopring.two"]


def test_if_one_source_file_is_edited_no_compiled_module_is_used(tmp_path: Path) -> None:
    write_record(tmp_path / "built", tmp_path, one="1", two="2")
    (tmp_path / "two.py").write_text("2 ")

    assert compiled.modules_of(tmp_path / "built", tmp_path) == []


def test_if_a_source_file_is_gone_no_compiled_module_is_used(tmp_path: Path) -> None:
    write_record(tmp_path / "built", tmp_path, one="1", two="2")
    (tmp_path / "two.py").unlink()

    assert compiled.modules_of(tmp_path / "built", tmp_path) == []


@pytest.mark.parametrize("text", ["", "{", "{}", '{"sources": {}}'])
def test_a_truncated_record_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / compiled.RECORD).write_text(text)

    assert compiled.modules_of(tmp_path, tmp_path) == []


def test_without_a_record_no_compiled_module_is_used(tmp_path: Path) -> None:
    assert compiled.modules_of(tmp_path / "nowhere") == []
