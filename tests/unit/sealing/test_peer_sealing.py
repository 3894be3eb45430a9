"""Sealed datagrams of peers: opened once, by who has the key, from where their process is."""

from random import Random

import pytest

from hopring.errors import Drop, PeerError
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.peer_sealing import (
    COUNTER_MAX,
    HEAD_BYTES,
    PEER_OVERHEAD_BYTES,
    SENDERS_MAX,
    PeerNumbersUsedUp,
    PeerSealing,
)
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.train import Train

CLUSTER = 0x51AB1E
ANNA, BERT = PeerProcess(0x7F000001, 4000, 11), PeerProcess(0x7F000001, 4001, 12)
OLD, NEW = ClusterKey(bytes(32)), ClusterKey(bytes(range(32)))


def sealing(process: PeerProcess, *keys: ClusterKey, domain: str = "d") -> PeerSealing:
    ring = keys or (OLD,)
    return PeerSealing(process, domain, KeyRing(ring, ring[0].id))


def refused(receiver: PeerSealing, datagram: bytes, process: PeerProcess = ANNA) -> Drop:
    with pytest.raises(PeerError) as error:
        receiver.open(datagram, process.address, process.port)
    return error.value.reason


def test_a_train_is_opened_datagram_by_datagram_and_nothing_of_it_is_readable() -> None:
    anna, bert = sealing(ANNA), sealing(BERT)
    train = Train(b"secret words" * 500, 1400)
    (sealed,) = anna.seal_train(CLUSTER, train)
    assert b"secret" not in sealed.buffer
    assert sealed.segment_bytes == 1400 + PEER_OVERHEAD_BYTES
    opened = [bert.open(one, ANNA.address, ANNA.port) for one in sealed.datagrams()]
    assert b"".join(opened) == train.buffer
    assert [len(one.datagrams()) for one in anna.seal_train(CLUSTER, Train(bytes(44 * 1400), 1400))] == [40, 4]


def test_a_datagram_is_taken_once_and_only_from_the_place_of_its_process() -> None:
    anna, bert = sealing(ANNA), sealing(BERT)
    first, second = anna.seal(CLUSTER, b"one"), anna.seal(CLUSTER, b"two")
    assert bert.open(second, ANNA.address, ANNA.port) == b"two"
    assert bert.open(first, ANNA.address, ANNA.port) == b"one"
    assert refused(bert, first) is Drop.REPLAY
    assert refused(bert, anna.seal(CLUSTER, b"x"), BERT) is Drop.FOREIGN_SENDER


def test_who_has_another_key_or_domain_or_none_is_refused() -> None:
    bert = sealing(BERT)
    assert refused(bert, sealing(ANNA, NEW).seal(CLUSTER, b"x")) is Drop.KEY
    assert refused(bert, sealing(ANNA, domain="other").seal(CLUSTER, b"x")) is Drop.SEAL
    assert refused(bert, b"HR\x01" + bytes(100)) is Drop.CLEAR_TEXT
    assert refused(bert, b"xx\x02" + bytes(100)) is Drop.MAGIC
    assert refused(bert, b"HR\x02" + bytes(20)) is Drop.TRUNCATED


def test_two_keys_are_accepted_while_they_are_changed() -> None:
    bert = sealing(BERT, NEW, OLD)
    assert bert.open(sealing(ANNA, OLD).seal(CLUSTER, b"old"), ANNA.address, ANNA.port) == b"old"
    later = PeerProcess(ANNA.address, ANNA.port, 99)
    assert bert.open(sealing(later, NEW).seal(CLUSTER, b"new"), ANNA.address, ANNA.port) == b"new"


def test_no_changed_datagram_is_opened_and_none_leaves_a_trace() -> None:
    anna, bert, dice = sealing(ANNA), sealing(BERT), Random(7)
    good = anna.seal(CLUSTER, b"x" * 200)
    for _ in range(3_000):
        changed = bytearray(good)
        changed[dice.randrange(len(good))] ^= 1 << dice.randrange(8)
        with pytest.raises(PeerError):
            bert.open(bytes(changed), ANNA.address, ANNA.port)
    for length in range(len(good)):
        with pytest.raises(PeerError):
            bert.open(good[:length], ANNA.address, ANNA.port)
    assert bert.senders == 0
    assert bert.open(good, ANNA.address, ANNA.port) == b"x" * 200
    assert HEAD_BYTES == 34


def test_numbers_do_not_wrap_and_far_more_senders_than_the_limit_are_forgotten() -> None:
    anna, bert = sealing(ANNA), sealing(BERT)
    anna.counter = (1 << 32) - 1
    assert bert.open(anna.seal(CLUSTER, b"next epoch"), ANNA.address, ANNA.port) == b"next epoch"
    anna.counter = COUNTER_MAX
    with pytest.raises(PeerNumbersUsedUp):
        anna.seal(CLUSTER, b"x")
    for nonce in range(SENDERS_MAX + 5):
        one = PeerProcess(ANNA.address, ANNA.port, 1000 + nonce)
        bert.open(sealing(one).seal(CLUSTER, b"x"), one.address, one.port)
    assert bert.senders == SENDERS_MAX
