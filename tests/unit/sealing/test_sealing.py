"""Sealing between daemons: what is opened, and what is refused under which reason."""

import gc
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from tests.unit.sealing.sealed_ends import (
    KEY,
    OTHER_KEY,
    RING,
    give,
    head_of,
    make,
    meet,
    process,
    reasons,
    say,
    settle,
)

from hopring.errors import PeerError
from hopring.ids import DaemonId
from hopring.sealing.keys import BadKey, ClusterKey, KeyRing
from hopring.sealing.packet import (
    EVERYBODY,
    HEAD_BYTES,
    OVERHEAD_BYTES,
    PLACE_BYTES,
    Form,
    finish_head,
    nonce_of,
)
from hopring.sealing.replay import WINDOW, ReplayWindow
from hopring.sealing.sealer import COUNTER_MAX, SINGLY_SENDS, CountersUsedUp, _OwnKey
from hopring.sealing.sealing import ASSEMBLIES_MAX, CHALLENGE_PAUSE_US, HEARD_US, Sealing
from hopring.wire.data import Data
from hopring.wire.header import Family
from hopring.wire.ring import Token
from hopring.wire.train import Frame, Train, decode, encode

ONE, TWO, THREE = DaemonId(1), DaemonId(2), DaemonId(3)


def seal(one: Sealing, frames: Sequence[Frame], singly: bool, to: DaemonId = TWO) -> list[Train]:
    """Frames as they are sent for the first time, or as repeats."""
    head = head_of(one.me)
    one.begin()
    if singly:
        one.seal_frames(head, Family.HOP, frames, 1400, to)
    return one.seal_frames(head, Family.HOP, frames, 1400, to)


def clear_trains(frames: Sequence[Frame]) -> list[Train]:
    return encode(head_of(process(1)), frames, 1400)


def met() -> tuple[Sealing, Sealing]:
    one, two = make(1), make(2)
    meet(one, two)
    return one, two


def test_a_datagram_is_opened_by_its_receiver_after_the_challenge() -> None:
    one, two = met()

    assert give(two, say(one, b"hello", TWO)) == [b"hello"]


def test_a_packet_of_an_unknown_process_is_dropped_and_challenged() -> None:
    one, two = make(1), make(2)

    assert reasons(give(two, say(one, b"hello", TWO))) == ["not_met"]
    assert [to for to, _ in two.replies] == [ONE]
    assert two.met == []


def test_challenges_to_one_daemon_are_limited_in_rate() -> None:
    one, two = make(1), make(2)
    for at_us in (0, 1, CHALLENGE_PAUSE_US - 1):
        give(two, say(one, b"hello", TWO), at_us)
    assert len(two.replies) == 1

    give(two, say(one, b"hello", TWO), CHALLENGE_PAUSE_US)
    assert len(two.replies) == 2


def test_the_clear_text_does_not_occur_in_what_is_sent() -> None:
    one, _ = met()
    frames = (Data(1, b"attack at dawn" * 500),)

    for singly in (False, True):
        trains = seal(one, frames, singly)
        assert all(b"attack" not in train.buffer for train in trains)
    assert b"attack" not in say(one, b"attack", TWO).buffer


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("size", [1, 1300, 1356, 1357, 5_000, 62_376])
def test_frames_come_out_as_they_went_in(singly: bool, size: int) -> None:
    one, two = met()
    frames = (Data(1, bytes(range(256)) * (size // 256) + bytes(size % 256)), Data(2, b"more"))

    found: list[bytes] = []
    for train in seal(one, frames, singly):
        assert train.segment_bytes == 1400 + OVERHEAD_BYTES
        assert len(train.buffer) <= 65_000 or singly
        found.extend(one for one in give(two, train) if isinstance(one, bytes))

    packets = [decode(head_of(process(1)) + body, 0xC1).frames for body in found]
    if singly:
        assert packets == [
            decode(one, 0xC1).frames for train in clear_trains(frames) for one in train.datagrams()
        ]
    else:
        assert [frame for packet in packets for frame in packet] == list(frames)


def test_a_sealed_train_is_assembled_from_single_reads_in_any_order() -> None:
    one, two = met()
    frame = Data(1, bytes(20_000))
    (train,) = seal(one, (frame,), singly=False, to=TWO)
    datagrams = train.datagrams()
    assert len(datagrams) > 10

    results = [give(two, Train(one, len(one))) for one in [*datagrams[::-1]]]

    assert results[:-1] == [[]] * (len(datagrams) - 1)
    (clear,) = results[-1]
    assert isinstance(clear, bytes)
    assert decode(head_of(process(1)) + clear, 0xC1).frames == (frame,)


def test_incomplete_trains_are_bounded_and_the_oldest_is_given_up() -> None:
    one, two = met()
    trains = [
        seal(one, (Data(at, bytes(3_000)),), singly=False, to=TWO)[0].datagrams()
        for at in range(ASSEMBLIES_MAX + 1)
    ]
    for datagrams in trains:
        assert give(two, Train(datagrams[0], len(datagrams[0]))) == []

    rests = [[give(two, Train(one, len(one))) for one in datagrams[1:]] for datagrams in trains[1:]]

    assert all(rest[-1] and isinstance(rest[-1][0], bytes) for rest in rests)
    assert [give(two, Train(one, len(one))) for one in trains[0][1:]] == [[]] * len(trains[0][1:])


def test_a_forged_segment_in_a_train_spoils_that_train_and_nothing_else() -> None:
    one, two = met()
    (train,) = seal(one, (Data(1, bytes(3_000)),), singly=False, to=TWO)
    first, *others = train.datagrams()
    forged = first[:-1] + bytes([first[-1] ^ 1])

    assert give(two, Train(forged, len(forged))) == []
    assert give(two, Train(first, len(first))) == []  # The place is taken.
    assert [reasons(give(two, Train(one, len(one)))) for one in others][-1] == ["wrong_seal"]
    (again,) = seal(one, (Data(1, bytes(3_000)),), singly=True, to=TWO)
    assert all(isinstance(clear, bytes) for clear in give(two, again))


def test_a_datagram_that_names_another_sender_than_its_seal_is_refused() -> None:
    one, two = met()

    forged = one.seal_datagram(head_of(process(3)) + b"hello", TWO)

    assert reasons(give(two, forged)) == ["inconsistent"]


def test_a_link_that_repeats_packets_seals_singly_for_a_while() -> None:
    one, _ = met()
    head, long = head_of(one.me), bytes(3_000)

    def form(seq: int) -> int:
        return one.seal_frames(head, Family.HOP, (Data(seq, long),), 1400, TWO)[0].buffer[3]

    forms = [form(seq) for seq in [1, 2, 2, *range(3, 3 + SINGLY_SENDS)]]

    assert forms == [Form.TRAIN] * 2 + [Form.DATAGRAM] * SINGLY_SENDS + [Form.TRAIN]


def test_a_packet_of_a_ring_that_another_sent_is_a_repeat_too() -> None:
    one, _ = met()
    one.saw_packets((Data(7, b"x"),))

    (train,) = one.seal_frames(head_of(one.me), Family.RING, (Data(7, bytes(3_000)),), 1400, EVERYBODY)

    assert train.buffer[3] == Form.DATAGRAM


TOKEN = Token(5, 7, 7, TWO, 0, 1, 1, 1, TWO)


def share(one: Sealing, payload: bytes, to: DaemonId) -> Train | None:
    """A packet for the whole site, and a token for one member."""
    return one.seal_shared(head_of(one.me), (Data(1, payload),), (TOKEN,), 1400, to)


def frames_of(results: list[bytes | PeerError]) -> list[Frame]:
    found: list[Frame] = []
    for one in results:
        assert isinstance(one, bytes), one
        found.extend(decode(head_of(process(1)) + one, 0xC1).frames)
    return found


def test_a_shared_datagram_has_the_token_for_its_member_only() -> None:
    one, two = met()
    three = make(3)
    meet(one, three, (1, 3))

    shared = share(one, b"for all", TWO)

    assert shared is not None
    assert shared.buffer[3] == Form.SHARED
    assert frames_of(give(two, shared)) == [Data(1, b"for all"), TOKEN]
    assert frames_of(give(three, shared)) == [Data(1, b"for all")]
    assert reasons(give(two, shared)) == reasons(give(three, shared)) == ["replay"]


@pytest.mark.parametrize(("size", "fits"), [(1, True), (1289, True), (1290, False), (5_000, False)])
def test_what_does_not_fit_in_one_datagram_is_not_shared(size: int, fits: bool) -> None:
    one, two = met()

    shared = share(one, bytes(size), TWO)

    assert (shared is not None) is fits
    if shared is not None:
        assert len(shared.buffer) <= 1400 + OVERHEAD_BYTES
        assert frames_of(give(two, shared)) == [Data(1, bytes(size)), TOKEN]


@pytest.mark.parametrize("end", [b"", b"abc", b"\2\0\xff\xff"])
def test_a_shared_datagram_whose_end_cannot_be_right_is_refused_and_changes_nothing(end: bytes) -> None:
    """Only a daemon with the key can have made it."""
    one, two = met()
    own = one._number_packet()
    head = finish_head(own.shared, EVERYBODY, nonce_of(one.counter))
    bad = head + own.cipher.encrypt(nonce_of(one.counter), end, head)

    assert reasons(give(two, Train(bad, len(bad)))) in (["truncated"], ["length"])
    assert reasons(give(two, Train(bad, len(bad)))) != ["replay"]


def test_no_two_ciphertexts_of_a_process_have_one_nonce() -> None:
    one, two = met()
    used: list[bytes] = []

    class Recorded:
        def __init__(self, cipher: AESGCM) -> None:
            self._cipher = cipher

        def encrypt(self, nonce: bytes, clear: bytes, aad: bytes) -> bytes:
            used.append(nonce)
            return self._cipher.encrypt(nonce, clear, aad)

    own = one._own_key(1)
    one._own = _OwnKey(own.end, cast("AESGCM", Recorded(own.cipher)), own.datagram, own.train, own.shared)
    for at in range(5):
        for singly in (False, True):
            seal(one, (Data(at, bytes(5_000)),), singly)
        share(one, b"short", TWO)
        say(one, b"short", TWO)

    assert len(used) == 5 * (2 + 2 + 4 + 1 + 1)
    assert len(set(used)) == len(used)
    assert two.met == [one.me]


@pytest.mark.parametrize("at", [0, 43, 44, 59, 60, 61, -17, -1])
def test_a_flipped_bit_in_either_part_of_a_train_is_refused(at: int) -> None:
    one, two = met()
    (train,) = seal(one, (Data(1, bytes(3_000)),), singly=False)
    changed = bytearray(train.buffer)
    changed[HEAD_BYTES + PLACE_BYTES + at if at >= 0 else at] ^= 1

    assert reasons(give(two, Train(bytes(changed), train.segment_bytes))) == ["wrong_seal"]
    assert reasons(give(two, train)) == []


def test_the_parts_of_two_trains_cannot_be_exchanged() -> None:
    one, two = met()
    (first,), (second,) = (seal(one, (Data(at, bytes(3_000)),), singly=False) for at in (1, 2))
    start = HEAD_BYTES + PLACE_BYTES
    mixed = first.buffer[:start] + second.buffer[start : start + 60] + first.buffer[start + 60 :]

    assert reasons(give(two, Train(mixed, first.segment_bytes))) == ["wrong_seal"]


def test_a_flipped_bit_anywhere_in_a_datagram_is_refused() -> None:
    one, two = met()
    sealed = say(one, b"hello", TWO).buffer

    for bit in range(8 * len(sealed)):
        bad = bytearray(sealed)
        bad[bit // 8] ^= 1 << bit % 8
        assert reasons(give(two, Train(bytes(bad), len(bad)))), f"bit {bit} of byte {bit // 8}"

    assert give(two, Train(sealed, len(sealed))) == [b"hello"]


@pytest.mark.parametrize("singly", [True, False])
def test_a_packet_of_a_known_process_that_is_cut_anywhere_is_refused(singly: bool) -> None:
    """One that ended within the head ended the daemon, which knew the start of it."""
    one, two = met()
    (whole, *_) = seal(one, (Data(1, bytes(3_000)),), singly=singly)
    datagram = whole.datagrams()[0]
    give(two, say(one, b"hello", TWO))
    (first, *_) = seal(one, (Data(2, bytes(3_000)),), singly=singly)
    give(two, first)

    for size in range(1, 80):
        cut = datagram[:size]
        assert reasons(give(two, Train(cut, size))), f"{size} bytes"


def test_refused_packets_are_freed_without_the_garbage_collector() -> None:
    """A flood of them would otherwise take megabytes before the collector runs."""
    one, two = met()
    sealed = say(one, b"hello", TWO)
    give(two, sealed)
    other = say(one, b"hello", TWO).buffer
    forged = Train(other[:-1] + bytes([other[-1] ^ 1]), len(other))
    strange = Train(b"XX" + other[2:], len(other))
    gc.collect()
    gc.disable()
    try:
        told = [reasons(give(two, train)) for train in (sealed, forged, strange) for _ in range(50)]
        freed = gc.collect()
    finally:
        gc.enable()

    assert told == [["replay"]] * 50 + [["wrong_seal"]] * 50 + [["magic"]] * 50
    assert freed < 10


def test_a_packet_is_accepted_once() -> None:
    one, two = met()
    sealed = say(one, b"hello", TWO)
    (train,) = seal(one, (Data(1, bytes(3_000)),), singly=False, to=EVERYBODY)

    assert give(two, sealed) == [b"hello"]
    assert reasons(give(two, sealed)) == ["replay"]
    assert reasons(give(two, train)) == []
    assert set(reasons(give(two, train))) == {"replay"}


def test_packets_from_before_the_receivers_start_are_refused() -> None:
    one, two = met()
    old = [say(one, b"old", TWO) for _ in range(3)]
    assert [give(two, train) for train in old] == [[b"old"]] * 3

    again = make(2, start=2)
    for train in old:
        assert reasons(give(again, train, 0)) == ["not_met"]
    settle({1: one, 2: again})
    for train in old:
        assert reasons(give(again, train, 1)) == ["replay"]
    assert give(again, say(one, b"new", TWO)) == [b"new"]


def test_packets_of_an_earlier_start_of_the_sender_are_not_heard_by_a_new_receiver() -> None:
    one, two = met()
    old = say(one, b"old", TWO)
    later = make(1, start=2)
    receiver = make(2, start=2)
    meet(later, receiver)

    assert reasons(give(receiver, old)) == ["not_met"]
    settle({1: later, 2: receiver}, CHALLENGE_PAUSE_US)  # Nobody answers the challenge to the earlier one.
    assert process(1) not in receiver.met
    assert process(1, 2) in receiver.met
    assert two.met == [process(1)]


def test_a_late_packet_of_an_earlier_process_is_refused_once_the_later_one_was_met() -> None:
    one, two = met()
    late = say(one, b"late", TWO)
    later = make(1, start=2)
    meet(later, two, now_us=CHALLENGE_PAUSE_US)

    assert reasons(give(two, late)) == ["not_met"]
    assert two.met == [process(1, 2)]
    assert give(two, say(later, b"now", TWO)) == [b"now"]


def test_a_recorded_response_does_not_bring_an_earlier_process_back() -> None:
    one, two = make(1), make(2)
    give(two, say(one, b"first", TWO))
    ((_, challenge),) = two.replies
    give(one, challenge)
    ((_, response),) = one.replies
    packet = say(one, b"once", TWO)
    assert give(two, response) == []
    assert give(two, packet) == [b"once"]
    two.replies = []
    meet(make(1, start=2), two, now_us=CHALLENGE_PAUSE_US)

    assert reasons(give(two, response, CHALLENGE_PAUSE_US)) == ["not_met"]
    assert reasons(give(two, packet, CHALLENGE_PAUSE_US)) == ["not_met"]
    assert two.met == [process(1, 2)]


def test_an_old_response_does_not_answer_a_new_challenge() -> None:
    one, two = make(1), make(2)
    give(two, say(one, b"first", TWO), 0)
    ((_, challenge),) = two.replies
    give(one, challenge)
    ((_, response),) = one.replies

    again = make(2, start=2)
    assert reasons(give(again, response)) == ["stale_incarnation"]
    assert reasons(give(two, response, 2_500_000)) == ["not_met"]  # Two slots later.
    assert two.met == []


def test_a_packet_for_one_daemon_is_refused_by_another_and_by_its_sender() -> None:
    one, two = met()
    three = make(3)
    meet(one, three, (1, 3))

    for_two, for_all = say(one, b"hello", TWO), say(one, b"hello", EVERYBODY)

    assert reasons(give(three, for_two)) == ["foreign_sender"]
    assert reasons(give(one, for_two)) == ["foreign_sender"]
    assert reasons(give(one, for_all)) == ["foreign_sender"]
    assert give(three, for_all) == [b"hello"]
    assert give(two, for_all) == [b"hello"]


def test_clear_text_foreign_keys_and_foreign_clusters_are_named() -> None:
    one, two = met()
    stranger = make(1, ring=KeyRing([OTHER_KEY], OTHER_KEY.id))
    elsewhere = make(1, cluster="london", counter=50)

    assert reasons(give(two, Train(head_of(process(1)) + b"body", 100))) == ["clear_text"]
    assert reasons(give(two, say(stranger, b"hello", TWO))) == ["unknown_key"]
    assert reasons(give(two, say(elsewhere, b"hello", TWO))) == ["wrong_seal"]
    assert give(two, say(one, b"hello", TWO)) == [b"hello"]


def test_a_process_that_later_ones_displaced_is_not_met_again_by_its_old_answer() -> None:
    two = make(2)
    first = make(1, start=1)
    give(two, say(first, b"first", TWO))
    ((_, challenge),) = two.replies
    two.replies = []
    give(first, challenge)
    ((_, answer),) = first.replies
    give(two, answer)
    assert two.met == [first.me]
    for start in (2, 3):
        meet(make(1, start=start), two, now_us=start * CHALLENGE_PAUSE_US)
    assert first.me not in two.met

    assert reasons(give(two, answer, 4 * CHALLENGE_PAUSE_US)) == ["not_met"]
    assert first.me not in two.met


def test_counters_end_before_they_repeat() -> None:
    one = make(1, counter=COUNTER_MAX - 2)
    say(one, b"last", TWO)

    with pytest.raises(CountersUsedUp):
        say(one, b"more", TWO)


def test_the_key_changes_with_the_epoch_and_packets_of_both_are_opened() -> None:
    one, two = make(1, counter=2**32 - 10), make(2)
    meet(one, two)

    found = [give(two, say(one, b"%d" % at, TWO)) for at in range(20)]

    assert found == [[b"%d" % at] for at in range(20)]


def test_no_two_sealed_packets_are_equal() -> None:
    one, two = met()
    sealed = [say(one, b"same", TWO).buffer for _ in range(10)]
    sealed += [say(two, b"same", TWO).buffer for _ in range(10)]
    sealed += [say(make(1, start=2), b"same", TWO).buffer]

    assert len({one[HEAD_BYTES:] for one in sealed}) == len(sealed)


@pytest.mark.parametrize("size", range(0, OVERHEAD_BYTES + 8, 3))
def test_short_datagrams_are_refused(size: int) -> None:
    one, two = met()
    sealed = say(one, b"", TWO).buffer + bytes(8)

    results = two.open(memoryview(sealed[:size] or b"?"), max(size, 1), 0)

    assert all(isinstance(result, PeerError) for result in results)


# Rotation.


def rings() -> tuple[KeyRing, KeyRing, KeyRing]:
    both = [KEY, OTHER_KEY]
    return KeyRing(both, KEY.id), KeyRing(both, OTHER_KEY.id), KeyRing([OTHER_KEY], OTHER_KEY.id)


def test_a_new_key_is_added_used_and_the_old_one_dropped_without_losing_a_packet() -> None:
    ends = {1: make(1), 2: make(2), 3: make(3)}
    for pair in pairwise([1, 2, 3, 1]):
        meet(ends[pair[0]], ends[pair[1]], pair)
    lost: list[str] = []
    now_us = 0

    def exchange() -> None:
        for sender in ends.values():
            train = say(sender, b"load", EVERYBODY)
            for to in ends.values():
                if to is not sender:
                    lost.extend(reasons(give(to, train, now_us)))
        settle(ends, now_us)

    for ring in rings():
        for end in ends.values():
            now_us += 5_000_000
            end.change_keys(ring, now_us)
            for _ in range(3):
                exchange()

    assert lost == []
    assert {end.key_in_use for end in ends.values()} == {OTHER_KEY.id}


def test_a_new_key_is_not_used_before_everybody_heard_lately_has_it() -> None:
    one, two = met()
    add, use, _ = rings()
    one.change_keys(add, 5_000_000)
    one.change_keys(use, 6_000_000)
    settle({1: one, 2: two}, 6_000_000)
    assert one.key_in_use == KEY.id  # Two has said nothing of the new key.

    two.change_keys(add, 7_000_000)
    settle({1: one, 2: two}, 7_000_000)
    assert one.key_in_use == OTHER_KEY.id
    assert give(two, say(one, b"new key", TWO), 7_000_001) == [b"new key"]


def test_an_announcement_of_an_unknown_process_is_challenged_so_that_both_meet() -> None:
    one, two = make(1), make(2)
    give(one, say(two, b"alive", ONE))
    settle({1: one, 2: two})
    assert one.met == [process(2)]
    assert two.met == []  # It has heard a challenge, and no packet.

    one.change_keys(rings()[0], 5_000_000)
    settle({1: one, 2: two}, 5_000_000)

    assert two.met == [process(1)]
    assert two.keys_of(process(1)) == {KEY.id, OTHER_KEY.id}


def test_a_lost_announcement_is_repeated_to_a_process_that_sends_nothing_but_announcements() -> None:
    one, two, three = make(1), make(2), make(3)
    meet(one, two)
    meet(one, three, (1, 3))
    one.change_keys(rings()[0], 5_000_000)
    one.replies.clear()  # Lost.

    give(one, say(three, b"alive", ONE), 5_900_000)
    assert one.replies == []
    give(one, say(three, b"alive", ONE), 6_000_000)
    settle({1: one, 2: two, 3: three}, 6_000_000)

    assert two.keys_of(process(1)) == three.keys_of(process(1)) == {KEY.id, OTHER_KEY.id}


def test_a_process_that_is_silent_for_long_does_not_delay_a_new_key() -> None:
    one, two = met()
    three = make(3)
    meet(one, three, (1, 3))
    add, use, _ = rings()
    one.change_keys(add, HEARD_US - 1)
    one.change_keys(use, HEARD_US)
    assert one.key_in_use == KEY.id

    two.change_keys(add, HEARD_US + 2)
    settle({1: one, 2: two}, HEARD_US + 2)

    assert one.key_in_use == OTHER_KEY.id


def test_a_process_that_starts_with_a_key_that_others_lack_falls_back_to_theirs() -> None:
    two = make(2)
    late = make(1, start=2, ring=rings()[1])
    give(late, say(two, b"alive", ONE))
    settle({1: late, 2: two})

    assert late.key_in_use == KEY.id
    give(two, say(late, b"alive", TWO))
    settle({1: late, 2: two})
    assert give(two, say(late, b"hello", TWO)) == [b"hello"]


def test_a_dropped_key_is_refused_at_once() -> None:
    one, two = met()
    two.change_keys(KeyRing([OTHER_KEY], OTHER_KEY.id), 0)

    assert reasons(give(two, say(one, b"hello", TWO))) == ["unknown_key"]


def test_keys_of_a_wrong_size_and_rings_without_their_key_are_refused() -> None:
    with pytest.raises(BadKey, match="32 bytes, this one 31"):
        ClusterKey(bytes(31))
    with pytest.raises(BadKey, match="not among the live ones"):
        KeyRing([KEY], OTHER_KEY.id)
    with pytest.raises(BadKey, match="between 1 and 2"):
        KeyRing([], KEY.id)


def test_a_key_does_not_show_its_secret() -> None:
    assert repr(KEY) == f"ClusterKey({KEY.id:08x})"
    assert repr(RING) == f"KeyRing({KEY.id:08x}; use {KEY.id:08x})"


# The window.


def test_a_window_accepts_each_counter_once_in_any_order() -> None:
    window = ReplayWindow(100)
    for counter in (101, 105, 103, 104, 102, 101 + WINDOW, 110):
        assert window.is_new(counter)
        window.accept(counter)

    assert [one for one in range(95, 111) if window.is_new(one)] == [106, 107, 108, 109]


def test_a_window_forgets_flags_of_skipped_counters() -> None:
    window = ReplayWindow(0)
    for counter in range(1, WINDOW + 1):
        window.accept(counter)
    window.accept(WINDOW + 100)

    assert window.is_new(WINDOW + 50)
    assert not window.is_new(101)
    window.accept(3 * WINDOW + 200)
    assert window.is_new(3 * WINDOW)
    assert not window.is_new(2 * WINDOW)
