"""The reason of a view in logs and events, with names."""

from msgspec.structs import replace

from hopring.daemon.process.view_facts import own_facts, reason_facts
from hopring.ids import DaemonId
from hopring.reason import ReasonKind, ViewReason, reason_of

NAMES = {DaemonId(0): "eu1", DaemonId(1): "eu2", DaemonId(2): "us1"}
SITES = {DaemonId(0): "eu", DaemonId(1): "eu", DaemonId(2): "us"}


def facts(reason: ViewReason | None) -> dict[str, object]:
    return reason_facts(reason, NAMES, SITES)


def test_a_link_is_named_by_its_sites() -> None:
    reason = replace(
        reason_of(ReasonKind.LINK, DaemonId(2), "silent", DaemonId(0), 1_200_000), noticed_us=81_500
    )

    assert facts(reason) == {
        "kind": "link",
        "witness": "us1",
        "peer": "eu1",
        "link": "eu-us",
        "silence": 1.2,
        "noticed": 0.082,
    }


def test_a_ring_is_named_by_its_site_and_who_is_suspected_may_be_unknown() -> None:
    reason = reason_of(ReasonKind.RING, DaemonId(1), "no token", None, 300_000)

    assert facts(reason) == {"kind": "ring", "witness": "eu2", "link": "eu", "silence": 0.3, "noticed": 0.0}


def test_a_start_has_no_witness_and_an_engine_without_reasons_no_facts() -> None:
    assert facts(reason_of(ReasonKind.START, DaemonId(0), "start")) == {"kind": "start"}
    assert facts(None) == {}


def test_a_daemon_that_is_not_configured_here_is_not_named() -> None:
    assert "peer" not in facts(reason_of(ReasonKind.LEAVE, DaemonId(0), "leaves", DaemonId(77)))


def test_what_a_daemon_noticed_itself_is_told_if_the_view_has_the_reason_of_another() -> None:
    agreed = reason_of(ReasonKind.LINK, DaemonId(2), "silent", DaemonId(0))
    heard = reason_of(ReasonKind.LOST, DaemonId(0), "us1 lost the view", DaemonId(2))

    assert own_facts(agreed, heard, NAMES) == {"own": "lost", "own_peer": "us1"}
    assert own_facts(agreed, agreed, NAMES) == {}
    assert own_facts(agreed, reason_of(ReasonKind.MERGE, DaemonId(0), "merge"), NAMES) == {}
    assert own_facts(None, None, NAMES) == {}
