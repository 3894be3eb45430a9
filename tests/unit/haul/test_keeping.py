"""What a member has on its disk beside the log, and how it gets what it lacks."""

from hopring.haul.application import ApplicationManager
from hopring.haul.ids import ClusterId, clusters_mask
from hopring.haul.stored.bodies import ASK_OTHER_US
from hopring.haul.stored.keeping import (
    MemberFiles,
    PieceGiven,
    PieceWanted,
    StoreContents,
    decode_store_message,
    piece_message,
)
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece
from hopring.ids import NEVER

DIGEST = bytes(32)
KEY = FileKey(DIGEST, 1)
MEMBERS = ("m1", "m2", "m3")


def keeping(has: int) -> MemberFiles:
    """The files of a member whose disk has the first bytes of a file of 10, of which the log has 8."""
    app = ApplicationManager(ClusterId(1), clusters_mask([ClusterId(2)]))
    app.shelf.begin(DIGEST, 10, 0)
    app.shelf.put(DIGEST, 0, b"01234567", 0)
    return MemberFiles(app, StoreContents({KEY: has} if has else {}))


def test_a_member_that_has_everything_asks_nobody() -> None:
    full = keeping(8)

    assert full.lacking == []
    assert full.ask("m1", MEMBERS, 0) is None
    assert full.wake_at_us() == NEVER


def test_others_are_asked_one_after_the_other() -> None:
    one = keeping(3)

    assert one.ask("m1", MEMBERS, 0) == PieceWanted("m2", KEY, 3)
    assert one.ask("m1", MEMBERS, ASK_OTHER_US - 1) is None
    assert one.ask("m1", MEMBERS, ASK_OTHER_US) == PieceWanted("m3", KEY, 3)


def test_a_member_that_is_alone_looks_again_later() -> None:
    one = keeping(3)

    assert one.ask("m1", ("m1",), 100) is None
    assert one.wake_at_us() == 100 + ASK_OTHER_US


def test_a_piece_from_another_member_is_stored_and_the_next_one_asked_for_at_once() -> None:
    one = keeping(0)
    one.ask("m1", MEMBERS, 0)

    assert one.given(PieceGiven(KEY, 0, b"0123")) == [StoreFilePiece(KEY, 0, b"0123")]
    assert one.ask("m1", MEMBERS, 1) == PieceWanted("m2", KEY, 4)


def test_what_the_state_does_not_name_is_not_stored() -> None:
    one = keeping(0)

    assert one.given(PieceGiven(FileKey(DIGEST, 2), 0, b"0123")) == []
    assert one.given(PieceGiven(KEY, 0, b"0123456789")) == []


def test_a_piece_of_the_log_behind_a_gap_is_not_stored() -> None:
    one = keeping(3)

    assert one.store(StoreFilePiece(KEY, 8, b"89")) == []
    assert one.store(StoreFilePiece(KEY, 0, b"01234567")) == [StoreFilePiece(KEY, 3, b"34567")]
    assert one.store(StoreFilePiece(KEY, 8, b"89")) == [StoreFilePiece(KEY, 8, b"89")]


def test_another_member_gets_what_is_here() -> None:
    assert keeping(5).wanted(PieceWanted("m1", KEY, 3)) == (3, 2)
    assert keeping(5).wanted(PieceWanted("m1", KEY, 5)) is None


def test_what_the_state_does_not_name_any_more_goes() -> None:
    app = ApplicationManager(ClusterId(1), clusters_mask([ClusterId(2)]))
    one = MemberFiles(app, StoreContents({KEY: 3}))

    assert one.sweep() == [DropFile(KEY)]
    assert one.size_of(KEY) == 0


def test_messages_between_members_are_read_as_they_were_written() -> None:
    message = piece_message("round", KEY, 4, b"45")

    assert decode_store_message(message.data) == PieceGiven(KEY, 4, b"45")
    assert decode_store_message(b"something") is None
