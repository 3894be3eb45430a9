"""Spools of a member: bodies that wait are beside its log from the next snapshot on."""

from tests.unit.haul.members import OneMember, exchange

from hopring.blocks.log.events import WriteRecords
from hopring.blocks.log.records import SnapshotRecord
from hopring.haul.entries import CastRequest, FilePieceRequest, SetJoinRequest, WideRequestRefused
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId
from hopring.haul.member import MEMORY_SPOOL_BYTES_MAX
from hopring.haul.order.events import CastKind
from hopring.haul.stored.bodies import ForgetBodies, StoreBodies

HUB, NORWAY = ClusterId(1), ClusterId(2)
BOTH = ClusterMask(3)
KEY = "tickets", ParcelId(HUB, 1)


def cast(number: int) -> CastRequest:
    of = "vendor", number, 0, "tickets", BOTH, "", CastKind.CBCAST, 0, NORWAY, b"3 left"
    return CastRequest(*of, notify=False)


def away() -> OneMember:
    """The hub, whose snapshots are frequent, with a parcel for Norway, which has never been there."""
    hub = OneMember(1, (2,), dials=(2,), compact_entries=4)
    hub.view()
    hub.request("vendor", 1, SetJoinRequest("vendor", 1, 0, "tickets", "vendors", BOTH))
    hub.request("vendor", 2, cast(2))
    for number in range(3, 8):
        hub.request("vendor", number, SetJoinRequest("vendor", number, 0, "tickets", "vendors", BOTH))
    return hub


def test_a_body_that_waits_is_stored_before_the_snapshot_which_has_it_not() -> None:
    hub = away()

    stored = next(at for at, one in enumerate(hub.files) if isinstance(one, StoreBodies))
    assert hub.files[stored] == StoreBodies(((KEY, b"3 left"),))
    after = [one for one in hub.files[stored:] if isinstance(one, WriteRecords)]
    snapshots = [one for one in after[0].records if isinstance(one, SnapshotRecord)]
    assert snapshots
    assert b"3 left" not in snapshots[0].data
    assert not hub.core.app.sets["tickets"].bodies


def test_status_tells_how_many_are_on_the_disk() -> None:
    (spool,) = [one for one in away().core.snapshot().spools if one.peer == NORWAY]

    assert (spool.is_on, spool.messages, spool.on_disk) == (True, 1, 1)


def test_it_is_sent_from_there_and_goes_when_the_peer_has_it() -> None:
    hub, norway = away(), OneMember(2, (1,))
    norway.view()
    hub.connect(norway)
    exchange(hub, norway)
    (stored,) = hub.stored
    assert stored.key == KEY
    assert stored.frame.body == b""

    norway.arrive(stored.frame)
    for _ in range(4):
        for one in (norway, hub):
            one.after(1_000_000)
        exchange(hub, norway)

    assert [one for one in hub.files if isinstance(one, ForgetBodies)] == [ForgetBodies((KEY,))]
    (spool,) = [one for one in hub.core.snapshot().spools if one.peer == NORWAY]
    assert (spool.is_on, spool.messages, spool.on_disk) == (False, 0, 0)


def test_without_files_bodies_stay_in_memory() -> None:
    hub = OneMember(1, (2,))
    hub.view()
    hub.request("vendor", 1, SetJoinRequest("vendor", 1, 0, "tickets", "vendors", BOTH))
    hub.request("vendor", 2, cast(2))

    hub.core.app.restore(hub.core.app.snapshot())

    assert hub.core.app.sets["tickets"].bodies == {KEY[1]: b"3 left"}


def test_without_files_beside_the_log_no_files_are_taken() -> None:
    hub = OneMember(1, (2,))
    hub.view()

    hub.request("vendor", 1, FilePieceRequest("vendor", 1, 0, bytes(32), 0, 0, b""))

    (answer,) = [one.answer for one in hub.answers]
    assert isinstance(answer, WideRequestRefused)
    assert hub.core.app.options.spool_bytes_max == MEMORY_SPOOL_BYTES_MAX
