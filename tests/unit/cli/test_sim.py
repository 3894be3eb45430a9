import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.campaign.caught_rings import CAUGHT_RINGS
from tests.support.waiting import until
from tests.unit.cli.conftest import Hop

from hopring.check.trace import ClientSent, Counters, GroupInstalled, MessageSent
from hopring.check.trace_files import read_json_lines, read_parquet
from hopring.sim.campaign.bugs.planting import all_bugs
from hopring.sim.campaign.rmp.ring_world import draw_ring_world

# Three daemons in one site: among the quickest worlds.
QUICK = "20012"
TWO_SITES = "42"
QUICK_BUG = "fifo-at-once"
# Two peers, small load.
QUIET_RINGS = "20"


def bugs_of(world: str) -> list[str]:
    return [name for name, one in all_bugs().items() if one.world == world]


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
        (["--blocks", "calls,pigs"], "no kind 'pigs'; there are calls, flush, locks, state"),
        (["--blocks", "--calls"], "--calls and --blocks do not go together"),
        (["--world", "flat"], "--world"),
        (["--world", "rmp", "--clients"], "not for rmp"),
    ],
)
def test_contradictory_options_are_exit_code_2(hop: Hop, arguments: list[str], told: str) -> None:
    result = hop("sim", *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_bugs_are_listed_one_a_line(hop: Hop) -> None:
    result = hop("sim", "--bugs")

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == bugs_of("daemons")


def test_bugs_are_listed_as_one_object(hop: Hop) -> None:
    listed = json.loads(hop("sim", "--bugs", "--json").stdout)["bugs"]

    assert [one["name"] for one in listed] == bugs_of("daemons")
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
    command = [sys.executable, "-m", "hopring.cli.main", "sim", "--seeds", "5000", "--jobs", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            workers = wait_for_children(process.pid, 2)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
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


def test_a_world_of_peers_runs_and_tells_its_story(hop: Hop) -> None:
    told = hop("sim", "--world", "rmp", "--seed", QUIET_RINGS)

    assert "peers    ann" in told.stdout
    assert "list 1.1  ann" in told.stdout


RING_BUG = "k-minus-one"


def test_bugs_of_rings_are_listed(hop: Hop) -> None:
    told = hop("sim", "--world", "rmp", "--bugs")

    assert [line.split()[0] for line in told.stdout.splitlines()] == bugs_of("rmp")


def test_worlds_of_peers_run_on_several_processors_from_a_first_seed_on(hop: Hop) -> None:
    told = hop("sim", "--world", "rmp", "--start", QUIET_RINGS, "--seeds", "3", "--jobs", "2", "--json")
    facts = json.loads(told.stdout)

    assert (told.exit_code, facts["seeds"], facts["violations"], facts["world"]) == (0, 3, 0, "rmp")


def test_the_history_of_a_world_of_peers_is_written_to_files(hop: Hop, tmp_path: Path) -> None:
    told = hop("sim", "--world", "rmp", "--seed", QUIET_RINGS, "--trace", str(tmp_path), "--json")
    files = json.loads(told.stdout)["trace"]
    with Path(files[0]).open("rb") as file:
        events = read_json_lines(file)

    assert any(isinstance(event, GroupInstalled) for event in events)
    assert any(isinstance(event, ClientSent) for event in events)


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_bug_of_rings_is_caught_and_its_world_shrunk(hop: Hop) -> None:
    seed, property_name = CAUGHT_RINGS[RING_BUG]
    caught = hop("sim", "--world", "rmp", "--bug", RING_BUG, "--start", str(seed), "--seeds", "1", "--json")
    small = hop("sim", "--world", "rmp", "--bug", RING_BUG, "--shrink", str(seed), "--json")
    facts, shrunk = json.loads(caught.stdout), json.loads(small.stdout)

    assert (caught.exit_code, facts["caught_by"]) == (1, property_name)
    assert small.exit_code == 1
    assert shrunk["failures"][0]["broken"][0]["property"] == property_name
    assert len(shrunk["schedule"]) < len(draw_ring_world(seed).schedule)
