import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import until
from tests.unit.cli.conftest import Hop

from hopring.check.trace import ClientSent, Counters, GroupInstalled, MessageSent
from hopring.check.trace_files import read_json_lines, read_parquet
from hopring.sim.campaign.bugs.planting import all_bugs

# Three daemons in one site: among the quickest worlds.
QUICK = "20012"
TWO_SITES = "42"
QUICK_BUG = "fifo-at-once"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "0"], "--jobs"),
        (["--seed", "x"], "--seed"),
        (["--seeds", "3", "--seed", "1"], "--seeds and --seed do not go together"),
        (["--seed", "3", "--shrink", "1"], "--seed and --shrink do not go together"),
        (["--bugs", "--bug", QUICK_BUG], "--bugs and --bug do not go together"),
        (["--trace", "out"], "--trace needs --seed or --shrink"),
        (["--bug", "flying-pigs"], "no bug 'flying-pigs'; hop sim --bugs lists them"),
    ],
)
def test_contradictory_options_are_exit_code_2(hop: Hop, arguments: list[str], told: str) -> None:
    result = hop("sim", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_bugs_are_listed_one_a_line(hop: Hop) -> None:
    result = hop("sim", "--bugs")

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(all_bugs())


def test_bugs_are_listed_as_one_object(hop: Hop) -> None:
    listed = json.loads(hop("sim", "--bugs", "--json").stdout)["bugs"]

    assert [one["name"] for one in listed] == list(all_bugs())
    assert all(one["breaks"] and one["story"] for one in listed)


@pytest.mark.slow
def test_a_campaign_without_a_violation_is_exit_code_0(hop: Hop) -> None:
    result = hop("sim", "--seeds", "1", "--start", QUICK)

    assert result.exit_code == 0
    assert result.stdout.startswith("1 seed, 0 violations, ")
    assert result.stderr == ""


@pytest.mark.slow
def test_a_campaign_as_json_is_one_object(hop: Hop) -> None:
    result = hop("sim", "--seeds", "1", "--start", QUICK, "--jobs", "1", "--json")

    facts = json.loads(result.stdout)
    assert (facts["seeds"], facts["violations"], facts["failed_seeds"]) == (1, 0, [])
    assert facts["events"] > 1_000
    assert facts["seconds"] >= 0


@pytest.mark.slow
def test_a_world_with_clients_has_their_events_in_its_trace(hop: Hop, tmp_path: Path) -> None:
    result = hop("sim", "--seed", QUICK, "--clients", "--trace", tmp_path)

    assert result.exit_code == 0
    assert "\nclients  " in result.stdout
    with (tmp_path / f"seed-{QUICK}.jsonl").open("rb") as file:
        history = read_json_lines(file)
    assert {ClientSent, GroupInstalled, MessageSent} <= {type(event) for event in history}


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_bug_of_groups_brings_its_clients(hop: Hop) -> None:
    result = hop("sim", "--bug", "once-for-each-group", "--jobs", "1", "--json")

    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["clients"], facts["caught_by"]) == (1, True, "EVS-C 2.5 no duplication")


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_caught_bug_is_exit_code_1_and_says_after_how_many_seeds(hop: Hop) -> None:
    result = hop("sim", "--bug", QUICK_BUG, "--start", QUICK, "--jobs", "1")

    assert result.exit_code == 1
    assert f"{QUICK_BUG} was caught after 1 seed by 2.11 FIFO messages" in result.stdout
    assert f"hop sim --bug {QUICK_BUG} --seed {QUICK}" in result.stdout


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_caught_bug_as_json(hop: Hop) -> None:
    facts = json.loads(hop("sim", "--bug", QUICK_BUG, "--start", QUICK, "--jobs", "1", "--json").stdout)

    assert (facts["seeds"], facts["failed_seeds"], facts["bug"]) == (1, [int(QUICK)], QUICK_BUG)
    assert facts["caught_by"] == "2.11 FIFO messages"
    assert facts["violations"] == len(facts["failures"][0]["broken"]) >= 1
    assert facts["planted_runs"] > 0


@pytest.mark.interpreted
@pytest.mark.slow
def test_an_uncaught_bug_is_exit_code_0_and_the_output_says_whether_its_code_ran(hop: Hop) -> None:
    result = hop("sim", "--bug", "line-forgotten", "--seeds", "1", "--start", QUICK)

    assert result.exit_code == 0
    assert "line-forgotten was not caught; its code ran " in result.stdout


@pytest.mark.slow
def test_a_replay_tells_the_story_and_leaves_a_trace(hop: Hop, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result = hop("sim", "--seed", QUICK, "--trace", tmp_path / "out")

    assert result.exit_code == 0
    assert result.stdout.startswith(f"seed {QUICK}\ndaemons  ams1 ams2 ams3\n")
    with (tmp_path / "out" / f"seed-{QUICK}.jsonl").open("rb") as file:
        history = read_json_lines(file)
    assert history == read_parquet(tmp_path / "out" / f"seed-{QUICK}.parquet")
    assert len(history) > 100


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_trace_has_the_counters_of_links_between_sites(hop: Hop, tmp_path: Path) -> None:
    assert hop("sim", "--seed", TWO_SITES, "--trace", tmp_path).exit_code == 0

    with (tmp_path / f"seed-{TWO_SITES}.jsonl").open("rb") as file:
        counters = [event for event in read_json_lines(file) if isinstance(event, Counters)]
    assert {(one.process.daemon, one.peer) for one in counters} == {("ams1", "ber1"), ("ber1", "ams1")}
    assert max(one.received for one in counters) > 0
    assert max(one.round_trip_us for one in counters) > 0


@pytest.mark.slow
@pytest.mark.interpreted  # Compiled, it would restart itself on the sources, in place of the test process.
def test_a_replay_with_a_bug_shows_the_witness(hop: Hop) -> None:
    result = hop("sim", "--seed", QUICK, "--bug", QUICK_BUG)

    assert result.exit_code == 1
    assert "\nbroken: 2.11 FIFO messages\n" in result.stdout
    assert "\naround the first witness\n" in result.stdout


@pytest.mark.slow
def test_a_trace_that_cannot_be_written_is_an_error_without_a_traceback(hop: Hop, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = hop("sim", "--seed", QUICK, "--trace", tmp_path / "file" / "below")

    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


@pytest.mark.interpreted
@pytest.mark.slow
def test_shrinking_prints_the_schedule_that_is_needed(hop: Hop) -> None:
    result = hop("sim", "--shrink", QUICK, "--bug", QUICK_BUG)

    assert result.exit_code == 1
    assert "broken: 2.11 FIFO messages" in result.stdout
    assert re.search(r"\n\d faults? of \d+ (is|are) needed", result.stdout)


@pytest.mark.slow
def test_a_seed_that_holds_has_nothing_to_shrink(hop: Hop) -> None:
    result = hop("sim", "--shrink", QUICK)

    assert (result.exit_code, result.stdout) == (0, f"seed {QUICK} does not fail\n")


@pytest.mark.slow
def test_an_interrupt_ends_all_processes_and_is_exit_code_130() -> None:
    # A shell starts its background jobs with SIGINT ignored, and their children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command = [sys.executable, "-m", "hopring.cli.main", "sim", "--seeds", "5000", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            workers = wait_for_children(process.pid, 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()

    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "hop: interrupted"
    assert "Traceback" not in err
    assert not any(alive(worker) for worker in workers)


def wait_for_children(pid: int, count: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    until(lambda: len(children.read_text().split()) >= count)
    return [int(one) for one in children.read_text().split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
