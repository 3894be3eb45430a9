"""Files on one connection: what is asked for, what is sent, and how much is under way."""

import pytest

from hopring.errors import PeerError
from hopring.haul.link.chunks import ASK_AGAIN_US, ChunkLine
from hopring.haul.link.frames import ChunkFrame, ChunkReceived, FileOffset

DIGEST = bytes(32)


def line() -> ChunkLine:
    return ChunkLine(window_bytes=1_000, piece_bytes=400)


def test_pieces_go_from_where_the_other_end_is_up_to_the_window() -> None:
    files = line()
    files.asked(DIGEST, 100)

    assert files.next_pieces(DIGEST, 5_000) == [(100, 400), (500, 400), (900, 200)]
    assert files.next_pieces(DIGEST, 5_000) == []


def test_what_is_logged_there_makes_room() -> None:
    files = line()
    files.asked(DIGEST, 0)
    files.next_pieces(DIGEST, 5_000)

    files.asked(DIGEST, 400)

    assert files.next_pieces(DIGEST, 5_000) == [(1_000, 400)]


def test_a_file_ends_with_what_is_here_of_it() -> None:
    files = line()
    files.asked(DIGEST, 0)

    assert files.next_pieces(DIGEST, 450) == [(0, 400), (400, 50)]


def test_all_files_of_a_connection_share_its_window() -> None:
    files = line()
    files.asked(DIGEST, 0)
    files.asked(b"1" * 32, 0)
    files.next_pieces(DIGEST, 5_000)

    assert files.next_pieces(b"1" * 32, 5_000) == []


def test_a_file_that_begins_anew_goes_again() -> None:
    files = line()
    files.asked(DIGEST, 0)
    files.next_pieces(DIGEST, 800)
    files.asked(DIGEST, 800)

    files.asked(DIGEST, 0)

    assert files.next_pieces(DIGEST, 800) == [(0, 400), (400, 400)]


def test_what_has_grown_is_told_and_what_has_not_is_asked_for_again_later() -> None:
    files = line()
    ask = [ChunkReceived(FileOffset(DIGEST, 0))]

    assert files.asks([(DIGEST, 0)], 0) == ask
    assert files.asks([(DIGEST, 0)], ASK_AGAIN_US - 1) == []
    assert files.asks([(DIGEST, 0)], ASK_AGAIN_US) == ask
    assert files.asks([(DIGEST, 400)], ASK_AGAIN_US) == [ChunkReceived(FileOffset(DIGEST, 400))]


def test_pieces_go_into_the_log_one_at_a_time_and_have_a_limit() -> None:
    files = line()
    for offset in range(0, 2_000, 400):
        files.arrive(ChunkFrame(DIGEST, offset, bytes(400)), 0)

    assert [one.offset for one in files.for_log()] == [0]
    files.arrive(ChunkFrame(DIGEST, 2_000, bytes(400)), 0)
    with pytest.raises(PeerError):
        files.arrive(ChunkFrame(DIGEST, 2_400, bytes(400)), 0)
