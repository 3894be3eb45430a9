"""Batches of events as a spooler receives them."""

from hopring.client.events import (
    Event,
    Member,
    View,
)
from hopring.client.receiving.sequence import EventSequence
from hopring.client.receiving.stream import EventStream
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, GroupName, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.session.frames import DeliveredBundle
from hopring.spooler import RunBuilder
from hopring.wire.batch_mark import BatchMark
from hopring.wire.bundle import BundleKey as BundleRun
from hopring.wire.bundle import decode_bundle, encode_bundle
from hopring.wire.envelope import encode_envelope

VIEW = ViewId(7, DaemonId(1), Incarnation(99))


ANNA = Member("eu1", "anna", 5, 1)


BERT = Member("us1", "bert", 6, 2)


SHOWN = View("trades", GroupViewId(VIEW, (), 3), (ANNA, BERT), (BERT,), "join", BERT, ((ANNA,), (BERT,)))


def stream_of(*parts: Event | DeliveredBundle) -> EventStream:
    stream = EventStream(now_us=1_000)
    for part in parts:
        if isinstance(part, DeliveredBundle):
            stream.put_messages(part, 0, len(part.bundle), 0)
        else:
            stream.put(part, 0)
        stream.now_us += 1
    return stream


def bundle(
    *bodies: bytes, lts: int = 1, groups: tuple[str, ...] = ("trades",), service: Service = Service.AGREED
) -> DeliveredBundle:
    key = BundleRun(DaemonId(0), 1, service, tuple(map(GroupName, groups)))
    packed = encode_bundle(key, bodies, range(len(bodies)), bytes(len(bodies)))
    return DeliveredBundle("#anna#eu1", Place(VIEW, lts, 0), decode_bundle(packed))


def enveloped(*messages: tuple[dict[str, str], bytes]) -> DeliveredBundle:
    key = BundleRun(DaemonId(0), 1, Service.AGREED, (GroupName("trades"),), enveloped=True)
    bodies = [encode_envelope(headers) + data for headers, data in messages]
    packed = encode_bundle(key, bodies, range(len(bodies)), bytes(len(bodies)))
    return DeliveredBundle("#anna#eu1", Place(VIEW, 1, 0), decode_bundle(packed))


def batch_of(*parts: Event | DeliveredBundle, most: int = 1000) -> EventSequence:
    return EventSequence(tuple(stream_of(*parts).take_many(most)[0]))


def builder(*groups: str) -> RunBuilder:
    one = RunBuilder()
    for group in groups:
        one.open(group)
    return one


def of_batch(app: str, batch: int, first: int, *bodies: bytes) -> DeliveredBundle:
    key = BundleRun(
        *(DaemonId(0), 1, Service.AGREED, (GroupName("trades"),)), mark=BatchMark(app, batch, first)
    )
    packed = encode_bundle(key, bodies, range(len(bodies)), bytes(len(bodies)))
    return DeliveredBundle("#anna#eu1", Place(VIEW, 1, 0), decode_bundle(packed))
