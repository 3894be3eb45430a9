"""Spilled events on a real disk."""

import gc
import os
from pathlib import Path
from random import Random

import pytest
from tests.support.descriptors import no_free_descriptor

from hopring.daemon.clients import spill
from hopring.daemon.clients.spill import SpillPlace
from hopring.session.backlog import SpillFailed
from hopring.session.frames import FrameKind, encode_frame


def frames(dice: Random, count: int, bytes_max: int) -> list[bytes]:
    return [encode_frame(FrameKind.MESSAGES, dice.randbytes(dice.randrange(bytes_max))) for _ in range(count)]


@pytest.mark.parametrize("seed", range(5))
def test_frames_come_back_in_order_for_any_sequence_of_puts_and_takes(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "PIECE_BYTES", 700)
    monkeypatch.setattr(spill, "SEGMENT_BYTES", 3_000)
    dice = Random(seed)
    place = SpillPlace(tmp_path)
    file = place.open(7)
    coming, taken = frames(dice, 2_000, 900), []
    waiting = list(coming)
    while waiting or file.size_bytes:
        if waiting and dice.random() < 0.6:
            file.put(waiting.pop(0))
        elif file.size_bytes:
            some = file.take()
            assert some
            taken += some

    assert taken == coming
    assert (list(tmp_path.iterdir()), place.size_bytes) == ([], 0)


def test_a_segment_is_deleted_when_it_has_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(spill, "SEGMENT_BYTES", 2_000)
    file = SpillPlace(tmp_path).open(7)
    for frame in frames(Random(1), 40, 500):
        file.put(frame)
    before = len(list(tmp_path.iterdir()))
    for _ in range(6):
        file.take()

    assert 0 < len(list(tmp_path.iterdir())) < before
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_files_of_an_earlier_start_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "12.3.spill").write_bytes(b"old")
    (tmp_path / "mine").write_bytes(b"mine")
    SpillPlace(tmp_path)

    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_all_clients_together_have_a_limit(tmp_path: Path) -> None:
    place = SpillPlace(tmp_path, bytes_max=spill.PIECE_BYTES + 1)
    place.open(1).put(encode_frame(FrameKind.MESSAGES, bytes(spill.PIECE_BYTES - 8)))
    other = place.open(2)
    with pytest.raises(SpillFailed, match="of all clients wait on disk"):
        other.put(encode_frame(FrameKind.MESSAGES, bytes(spill.PIECE_BYTES)))


def test_spills_hold_no_descriptors_between_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(spill, "SEGMENT_BYTES", 2_000)
    place = SpillPlace(tmp_path)
    gc.collect()  # Descriptors that earlier tests have left.
    before = len(os.listdir("/proc/self/fd"))
    files = [place.open(number) for number in range(5)]
    for file in files:
        for frame in frames(Random(1), 40, 500):
            file.put(frame)
        file.take()

    assert len(list(tmp_path.iterdir())) > 10
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_spill_without_a_free_descriptor_fails_for_its_client_only(tmp_path: Path) -> None:
    file = SpillPlace(tmp_path).open(7)
    frame = encode_frame(FrameKind.MESSAGES, bytes(spill.PIECE_BYTES))
    with no_free_descriptor(), pytest.raises(SpillFailed, match="cannot be written to disk"):
        file.put(frame)
