"""Reload: daemons and sites come and go while clients stay; daemons with other configurations are refused."""

import json

import msgspec
import pytest
from tests.monitor.fleet import SECONDS_MAX, Fleet, wait

from hopring import SAFE, Message, View, sync
from hopring.check.judge import first_broken
from hopring.check.trace_files import TraceRow, events
from hopring.config import LinkProtocol, cluster_hash

pytestmark = pytest.mark.slow

TWO = {"eu": ["eu1"], "us": ["us1"]}
# These names sort before the others, so every daemon gets another number.
FOUR = {"asia": ["asia1"], "eu": ["eu0", "eu1"], "us": ["us1"]}


def until_view(session: sync.Session, *members: str) -> list[object]:
    """Receives up to a view with these members; returns the events before it."""
    seen: list[object] = []
    while True:
        event = session.receive(timeout_seconds=SECONDS_MAX)
        seen.append(event)
        if isinstance(event, View) and sorted([one.name for one in event.members]) == sorted(members):
            return seen


def until_message(session: sync.Session, data: bytes) -> Message:
    while True:
        event = session.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message) and event.data == data:
            return event


def judge(fleet: Fleet) -> None:
    """Checks extended virtual synchrony on the traces of all daemons."""
    told = []
    for name in fleet.processes:
        lines = fleet.trace(name).read_bytes().splitlines()
        told += list(events(msgspec.json.Decoder(TraceRow).decode(line) for line in lines))
    assert first_broken(told, quiet_end=False) is None


def test_a_daemon_and_a_site_are_added_and_removed_while_clients_stay() -> None:
    with Fleet() as fleet:
        fleet.write(TWO)
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        with fleet.connect("eu1", name="anna") as anna, fleet.connect("us1", name="bert") as bert:
            for session in (anna, bert):
                session.join("trades")
            until_view(anna, "anna", "bert")
            until_view(bert, "anna", "bert")

            fleet.write(FOUR)
            fleet.start("asia1", "eu0")
            result = fleet.hop("reload", "eu1", "us1")
            assert result.exit_code == 0, result.output
            fleet.meet("asia1", "eu0", "eu1", "us1")
            until_view(anna, "anna", "bert")
            until_view(bert, "anna", "bert")
            with fleet.connect("asia1", name="cara") as cara:
                cara.join("trades")
                for session in (anna, bert, cara):
                    until_view(session, "anna", "bert", "cara")
                # The old sessions were accepted when the daemons had other numbers.
                anna.multicast("trades", b"from anna", service=SAFE)
                for session in (anna, bert, cara):
                    assert until_message(session, b"from anna").sender == "#anna#eu1"
            until_view(anna, "anna", "bert")
            until_view(bert, "anna", "bert")

            assert fleet.hop("terminate", "asia1", "eu0").exit_code == 0
            fleet.write(TWO)
            assert fleet.hop("reload").exit_code == 0
            fleet.meet("eu1", "us1")
            until_view(bert, "anna", "bert")
            anna.multicast("trades", b"as before")
            until_message(bert, b"as before")
        for process in fleet.processes.values():
            process.terminate()
            process.wait(SECONDS_MAX)
        judge(fleet)


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_client_sees_a_partition_and_a_merge_and_loses_nothing_of_its_own(protocol: LinkProtocol) -> None:
    with Fleet(protocol=protocol) as fleet:
        fleet.write(TWO)
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        with fleet.connect("eu1", name="anna") as anna, fleet.connect("us1", name="bert") as bert:
            anna.join("trades")
            bert.join("trades")
            until_view(anna, "anna", "bert")
            fleet.write(FOUR)
            sent: list[bytes] = []
            here: list[bytes] = []
            sizes: list[int] = []
            while len(sent) < 300 or sizes[-1:] != [2]:
                sent.append(b"%d" % len(sent))
                anna.multicast("trades", sent[-1])
                if len(sent) == 100:
                    assert fleet.hop("reload", "--no-wait").exit_code == 0
                while len(sent) - len(here) >= 20:  # This many messages are in flight.
                    take(anna, here, sizes)
            while len(here) < len(sent):
                take(anna, here, sizes)
            assert here == sent
            assert (sizes[0], sizes[-1]) == (1, 2)
            there: list[bytes] = []
            while not there or there[-1] != sent[-1]:
                event = bert.receive(timeout_seconds=SECONDS_MAX)
                there += [event.data] if isinstance(event, Message) else []
            # On a heavily loaded machine, daemons give up waiting for each other after a while, and log it.
            starved = "warning" in fleet.log("eu1") + fleet.log("us1")
            assert there == sorted(there, key=int)
            assert starved or there == sent


def take(session: sync.Session, data: list[bytes], sizes: list[int]) -> None:
    """The next event: a message, or the number of members of the group."""
    event = session.receive(timeout_seconds=SECONDS_MAX)
    if isinstance(event, Message):
        data.append(event.data)
    elif isinstance(event, View):
        sizes.append(len(event.members))


def test_a_daemon_with_another_configuration_is_refused_with_a_log_line_that_names_it() -> None:
    with Fleet() as fleet:
        fleet.write(TWO)
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        with fleet.connect("eu1", name="anna") as anna:
            anna.join("trades")
            check_unusable_files(fleet)
            check_different_configurations(fleet)
            check_consecutive_reloads(fleet)
            with fleet.connect("us1", name="bert") as bert:
                anna.multicast(["trades", "#bert#us1"], b"still here")
                until_message(anna, b"still here")
                assert until_message(bert, b"still here").sender == "#anna#eu1"
                bert.multicast("#anna#eu1", b"so am I")
                until_message(anna, b"so am I")


def check_unusable_files(fleet: Fleet) -> None:
    """Files without this daemon, or with another address for it, are refused."""
    fleet.write({"eu": ["eu1"]})
    result = fleet.hop("reload", "us1")
    assert result.exit_code == 1
    assert "there is no daemon us1" in result.stderr

    fleet.write(TWO)
    there, elsewhere = ('name = "us1"\naddress = "127.0.0.1"', 'name = "us1"\naddress = "127.0.0.2"')
    assert there in fleet.file.read_text()
    fleet.file.write_text(fleet.file.read_text().replace(there, elsewhere))
    assert "needs_restart=daemons" in fleet.hop("reload", "us1").stdout
    assert fleet.views() == {"eu1": ["eu1", "us1"], "us1": ["eu1", "us1"]}


def check_different_configurations(fleet: Fleet) -> None:
    """One of two daemons reads another configuration; then the other one does."""
    fleet.write(FOUR)
    result = fleet.hop("reload", "eu1")
    assert result.exit_code == 0
    assert "view_change=sites,daemons,links" in result.stdout
    for name, other in (("eu1", "us1"), ("us1", "eu1")):
        wait(lambda at=name, of=other: f"refused daemon={of} " in fleet.log(at))  # type: ignore[misc]
        line = next(line for line in fleet.log(name).splitlines() if "refused daemon=" in line)
        assert "ours is" in line
        assert "compare `hop config check`" in line
    assert fleet.views() == {"eu1": ["eu1"], "us1": ["us1"]}

    assert fleet.hop("reload", "us1").exit_code == 0
    fleet.meet("eu1", "us1")
    assert fleet.log("eu1").count("refused daemon=us1") == 1


def check_consecutive_reloads(fleet: Fleet) -> None:
    """Of several reloads in a row the last one counts, even if earlier ones are not complete."""
    for sites in (TWO, FOUR, TWO, FOUR, {"eu": ["eu1", "eu2"], "us": ["us1"]}):
        fleet.write(sites)
        assert fleet.hop("reload", "--no-wait").exit_code == 0
    fleet.meet("eu1", "us1")
    # A partition survives a reload, because it is stored by names.
    assert fleet.hop("partition", "eu | us").exit_code == 0
    fleet.write(FOUR)
    assert fleet.hop("reload").exit_code == 0
    cuts = {name: one["cut"] for name, one in json.loads(fleet.hop("status", "--json").stdout).items()}
    assert cuts == {"eu1": ["us1"], "us1": ["eu1"]}
    assert fleet.views() == {"eu1": ["eu1"], "us1": ["us1"]}
    assert fleet.hop("heal").exit_code == 0
    fleet.write({"eu": ["eu1", "eu2"], "us": ["us1"]})
    assert fleet.hop("reload").exit_code == 0
    fleet.meet("eu1", "us1")
    config = cluster_hash(fleet.config({"eu": ["eu1", "eu2"], "us": ["us1"]}))
    assert all(f"hash={config:08x}" in fleet.log(name) for name in ("eu1", "us1"))
