from itertools import permutations

import pytest

from hopring.errors import Drop, PeerError
from hopring.links.assembly import Assembly
from hopring.wire.data import Segment, cut

ABC = b"aaaabbbbcc"  # In chunks of four bytes: three segments, the last one short.


def test_a_packet_comes_out_whole_with_its_last_segment_in_any_order() -> None:
    for order in permutations(cut(7, ABC, chunk_bytes=4)):
        assembly = Assembly()

        assert [assembly.add(segment) for segment in order] == [None, None, ABC]
        assert len(assembly) == 0


def test_a_packet_of_one_segment_is_whole_at_once() -> None:
    assert Assembly().add(Segment(7, 0, 1, 2, b"hi")) == b"hi"
    assert Assembly().add(Segment(7, 0, 1, 0, b"")) == b""


def test_a_duplicate_segment_changes_nothing() -> None:
    first, second, third = cut(7, ABC, chunk_bytes=4)
    assembly = Assembly()
    assembly.add(first)

    assert assembly.add(first) is None
    assert assembly.missing_segments(7) == 0b110
    assert assembly.add(third) is None
    assert assembly.add(second) == ABC


def test_packets_are_kept_apart_by_sequence() -> None:
    assembly = Assembly()
    for seq in (2**32 - 1, 2**63):
        assembly.add(cut(seq, ABC, chunk_bytes=4)[0])

    assert len(assembly) == 2
    assert 2**63 in assembly
    assert 2**32 not in assembly


def test_the_missing_segments_are_bits() -> None:
    assembly = Assembly()
    assembly.add(cut(7, ABC, chunk_bytes=4)[1])

    assert assembly.missing_segments(7) == 0b101


def test_of_a_packet_that_never_came_no_single_segment_is_missing() -> None:
    assert Assembly().missing_segments(7) == 0


def test_a_forgotten_packet_starts_anew() -> None:
    first, second, third = cut(7, ABC, chunk_bytes=4)
    assembly = Assembly()
    assembly.add(first)
    assembly.forget(7)
    assembly.forget(8)

    assert 7 not in assembly
    assert [assembly.add(second), assembly.add(third)] == [None, None]


@pytest.mark.parametrize(
    "liar",
    [
        pytest.param(Segment(7, 1, 4, 10, b"bbb"), id="another count"),
        pytest.param(Segment(7, 1, 3, 11, b"bbbb"), id="another size"),
        pytest.param(Segment(7, 1, 3, 10, b"bbbbb"), id="a longer chunk"),
        pytest.param(Segment(7, 2, 3, 10, b"cccc"), id="a last chunk of another cut"),
        pytest.param(Segment(7, 0, 3, 10, b"aaa"), id="a duplicate of another cut"),
    ],
)
def test_a_segment_of_another_cut_is_refused_and_changes_nothing(liar: Segment) -> None:
    first, second, third = cut(7, ABC, chunk_bytes=4)
    assembly = Assembly()
    assembly.add(first)

    with pytest.raises(PeerError) as error:
        assembly.add(liar)

    assert error.value.reason == Drop.INCONSISTENT
    assert assembly.missing_segments(7) == 0b110
    assert [assembly.add(second), assembly.add(third)] == [None, ABC]
