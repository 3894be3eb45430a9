import pytest

from hopring.errors import Drop, PeerError
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.probe import Probe, decode_probe, encode_probe


def test_a_probe_is_an_object_of_its_own_kind() -> None:
    probe = Probe(0xFFFF_FFFF, 7, 250_000)

    ((kind, body),) = split_objects(encode_probe(probe))

    assert kind == ObjectType.PROBE
    assert bytes(body) == bytes.fromhex("ffffffff 07000000 90d00300")
    assert decode_probe(body) == probe


@pytest.mark.parametrize("size", [0, 11, 13])
def test_a_probe_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(PeerError) as caught:
        decode_probe(memoryview(bytes(size)))

    assert caught.value.reason is Drop.LENGTH
