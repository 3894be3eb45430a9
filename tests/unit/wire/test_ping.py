import pytest

from hopring.errors import Drop, PeerError
from hopring.wire.control import Ping, decode_ping, encode_ping
from hopring.wire.objects import ObjectType, split_objects


def test_a_ping_is_an_object_of_its_own_kind() -> None:
    ping = Ping(0xFFFF_FFFF, 7, 250_000)

    ((kind, body),) = split_objects(encode_ping(ping))

    assert kind == ObjectType.PING
    assert bytes(body) == bytes.fromhex("ffffffff 07000000 90d00300")
    assert decode_ping(body) == ping


@pytest.mark.parametrize("size", [0, 11, 13])
def test_a_ping_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(PeerError) as caught:
        decode_ping(memoryview(bytes(size)))

    assert caught.value.reason is Drop.LENGTH
