"""Bundles for tests of their encoding, and the reasons for which decoding refuses them."""

from typing import Final

import pytest

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.wire.bundle import (
    BundleKey,
    decode_bundle,
    encode_bundle,
)

KEY: Final = BundleKey(DaemonId(3), 17, Service.AGREED, (GroupName("orders"), GroupName("grüße")), True, 2)


def encoded(*bodies: bytes, key: BundleKey = KEY) -> bytes:
    return encode_bundle(key, bodies, [7] * len(bodies), [1] * len(bodies))


def reason_of(buffer: bytes | bytearray) -> Drop:
    with pytest.raises(PeerError) as caught:
        decode_bundle(bytes(buffer))
    return caught.value.reason


def with_groups(*names: str) -> BundleKey:
    return BundleKey(KEY.daemon, KEY.session, KEY.service, tuple(GroupName(name) for name in names))
