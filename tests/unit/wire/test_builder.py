"""Bundles in the making: when a message finds room, and which messages may share a bundle."""

from typing import Final

import pytest

from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import GROUPS_MAX, MESSAGES_MAX, BundleKey, decode_bundle, encode_bundle

KEY: Final = BundleKey(DaemonId(3), 17, Service.AGREED, (GroupName("orders"), GroupName("grüße")), True, 2)
ONE: Final = BundleKey(DaemonId(3), 17, Service.AGREED, (GroupName("orders"),))


def to(name: str) -> tuple[GroupName, ...]:
    return (GroupName(name),)


def test_a_builder_takes_messages_until_it_is_full() -> None:
    builder = BundleBuilder(KEY, message_bytes_max=10)
    builder.append(b"12345678", message_type=5, hints=6)

    assert builder.fits(2)
    assert not builder.fits(3)
    with pytest.raises(AssertionError):
        builder.append(b"123")
    assert b"".join(builder.finish().parts) == encode_bundle(KEY, [b"12345678"], [5], [6])


def test_a_builder_takes_no_more_messages_than_a_bundle_may_hold() -> None:
    builder = BundleBuilder(KEY)
    for _ in range(MESSAGES_MAX):
        builder.append(b"")

    assert not builder.fits(0)
    assert len(decode_bundle(b"".join(builder.finish().parts))) == MESSAGES_MAX


def test_nothing_is_appended_to_a_sealed_bundle() -> None:
    builder = BundleBuilder(KEY)
    builder.append(b"one")
    builder.finish()

    with pytest.raises(AssertionError):
        builder.append(b"two")
    with pytest.raises(AssertionError):
        builder.finish()


def test_messages_to_one_group_each_share_a_bundle() -> None:
    builder = BundleBuilder(ONE)
    for name, body in (("orders", b"1"), ("news", b"2"), ("orders", b"3")):
        assert builder.accepts(to(name), Service.AGREED, False)
        builder.append(body, 7, 0, to(name))
    bundle = decode_bundle(b"".join(builder.finish().parts))

    assert bundle.key == ONE.replace(groups=(GroupName("orders"), GroupName("news")), mixed=True)
    assert [(bundle.groups_of(at), bytes(body)) for at, body in enumerate(bundle.messages())] == [
        (to("orders"), b"1"),
        (to("news"), b"2"),
        (to("orders"), b"3"),
    ]


@pytest.mark.parametrize(
    ("key", "groups", "service", "self_discard"),
    [
        (ONE, to("news"), Service.SAFE, False),
        (ONE, to("news"), Service.AGREED, True),
        (ONE, (*to("orders"), *to("news")), Service.AGREED, False),
        (KEY, to("news"), Service.AGREED, True),
        (ONE.replace(service=Service.FIFO), to("news"), Service.FIFO, False),
        (ONE.replace(service=Service.RELIABLE), to("news"), Service.RELIABLE, False),
        (ONE.replace(service=Service.UNRELIABLE), to("news"), Service.UNRELIABLE, False),
    ],
)
def test_messages_that_differ_in_more_than_one_group_do_not_share_a_bundle(
    key: BundleKey, groups: tuple[GroupName, ...], service: Service, self_discard: bool
) -> None:
    builder = BundleBuilder(key)
    builder.append(b"first")

    assert builder.accepts(key.groups, key.service, key.self_discard)
    assert not builder.accepts(groups, service, self_discard)


def test_a_bundle_has_no_more_groups_than_it_may() -> None:
    builder = BundleBuilder(ONE)
    builder.append(b"")
    for at in range(1, GROUPS_MAX):
        builder.append(b"", groups=to(f"group {at}"))

    assert builder.accepts(to("group 5"), Service.AGREED, False)
    assert not builder.accepts(to("one more"), Service.AGREED, False)
    assert len(decode_bundle(b"".join(builder.finish().parts)).key.groups) == GROUPS_MAX


def test_a_message_never_adds_more_bytes_than_estimated() -> None:
    builder, said = BundleBuilder(ONE), 0
    builder.append(b"")
    empty = BundleBuilder(ONE)
    empty.append(b"")
    before = empty.finish().size_bytes
    for at in range(200):
        groups = to(f"group {at % 50}")
        said += builder.cost_bytes(groups, at)
        builder.append(bytes(at), groups=groups)

    assert builder.finish().size_bytes - before <= said + 1  # The first message has a place now, too.
