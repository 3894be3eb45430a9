import pytest

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId
from hopring.wire.control import (
    Control,
    Update,
    cut_control,
    decode_control_object,
    decode_update,
    encode_control_object,
    encode_update,
)
from hopring.wire.objects import OBJECT_HEAD_BYTES


def body_of(encoded: bytes) -> memoryview:
    return memoryview(encoded)[OBJECT_HEAD_BYTES:]


def test_a_control_message_is_cut_into_objects_that_fit() -> None:
    parts = cut_control(SiteId(1), DaemonId(2), 3, bytes(250), object_bytes_max=115)

    assert [len(part.chunk) for part in parts] == [100, 100, 50]
    assert [decode_control_object(body_of(encode_control_object(part))) for part in parts] == parts
    assert cut_control(SiteId(1), DaemonId(2), 3, b"", 115) == [Control(SiteId(1), DaemonId(2), 3, 0, 1, b"")]


def test_a_fragment_past_the_last_one_is_refused() -> None:
    with pytest.raises(PeerError, match="fragment 2 of 2"):
        decode_control_object(body_of(encode_control_object(Control(SiteId(1), DaemonId(2), 3, 2, 2, b""))))


def test_an_invalid_site_is_refused() -> None:
    with pytest.raises(PeerError) as caught:
        decode_control_object(body_of(encode_control_object(Control(SiteId(64), DaemonId(2), 3, 0, 1, b""))))
    assert caught.value.reason is Drop.LIMIT
    with pytest.raises(PeerError) as caught:
        decode_update(body_of(encode_update(Update(SiteId(64), 1, 2, 3))))
    assert caught.value.reason is Drop.LIMIT
