"""Builds bundles: messages of one session are added until the bundle is full, or a message does not match."""

from dataclasses import dataclass, field

from hopring.ids import GroupName
from hopring.services import Service
from hopring.wire.bundle import (
    BUNDLE_BYTES_MAX,
    COLUMNS_BYTES,
    GROUPS_MAX,
    MESSAGE_BYTES_DEFAULT,
    MESSAGES_MAX,
    BundleKey,
    BundleParts,
    bundle_parts,
    encode_groups,
)


def mixes(key: BundleKey) -> bool:
    """Whether a message with this key may share a bundle with messages to other groups."""
    return len(key.groups) == 1 and key.service.total and key.mark is None


@dataclass(slots=True)
class BundleBuilder:
    """A bundle to which messages are added until `finish`.

    With more than one message, its bodies, columns and names of groups are at most `aim_bytes`. Messages that
    go to one group each may share a bundle even if the groups differ, if all else is the same.
    """

    key: BundleKey  # Of the first message.
    message_bytes_max: int = MESSAGE_BYTES_DEFAULT
    aim_bytes: int = BUNDLE_BYTES_MAX
    bodies_bytes: int = 0
    finished: bool = False
    _mixes: bool = False
    _names_bytes: int = 0
    _index_of: dict[tuple[GroupName, ...], int] = field(default_factory=dict)  # The index of each group.
    _bodies: list[bytes | memoryview] = field(default_factory=list)
    _types: list[int] = field(default_factory=list)
    _hints: bytearray = field(default_factory=bytearray)
    _group_indexes: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._mixes = mixes(self.key)
        self._index_of[self.key.groups] = 0
        self._names_bytes = len(encode_groups(self.key.groups))

    def __len__(self) -> int:
        return len(self._bodies)

    def cost_bytes(self, groups: tuple[GroupName, ...], body_bytes: int) -> int:
        """The most bytes that a message of this size to these groups adds."""
        names_bytes = 0 if groups in self._index_of else len(encode_groups(groups))
        return body_bytes + COLUMNS_BYTES + names_bytes

    def accepts(
        self,
        groups: tuple[GroupName, ...],
        service: Service,
        self_discard: bool,
        enveloped: bool = False,
        resilience: int = 0,
    ) -> bool:
        """Whether a message with these properties may be added, if it fits."""
        key = self.key
        if self.finished or key.service is not service or key.self_discard is not self_discard:
            return False
        if key.enveloped is not enveloped or key.resilience != resilience:
            return False
        if groups in self._index_of:
            return True
        return self._mixes and len(groups) == 1 and len(self._index_of) < GROUPS_MAX

    def fits(self, body_bytes: int) -> bool:
        """Whether a message of this size may be added; the first one only has to be a legal message."""
        count, bodies_bytes = len(self._bodies), self.bodies_bytes + body_bytes
        if bodies_bytes > self.message_bytes_max or count >= MESSAGES_MAX:
            return False
        return not count or bodies_bytes + COLUMNS_BYTES * (count + 1) + self._names_bytes <= self.aim_bytes

    def append(
        self,
        body: bytes | memoryview,
        message_type: int = 0,
        hints: int = 0,
        groups: tuple[GroupName, ...] = (),
    ) -> None:
        """Adds a message, to these groups or to those of the first; call `accepts` and `fits` before."""
        assert not self.finished, "nothing is appended to a finished bundle"
        bodies_bytes = self.bodies_bytes + len(body)
        # Written out, because this is done for each message.
        assert bodies_bytes <= self.message_bytes_max, "call fits before append"
        assert len(self._bodies) < MESSAGES_MAX, "call fits before append"
        group_index = self._index_of.get(groups or self.key.groups)
        if group_index is None:
            group_index = self._index_of[groups] = len(self._index_of)
            self._names_bytes += len(encode_groups(groups))
        self.bodies_bytes = bodies_bytes
        self._bodies.append(body)
        self._types.append(message_type)
        self._hints.append(hints)
        self._group_indexes.append(group_index)

    def finish(self) -> BundleParts:
        """Ends the bundle and returns it in parts; it is stamped next."""
        assert not self.finished, "a bundle is finished once"
        self.finished = True
        if len(self._index_of) == 1:
            return bundle_parts(self.key, self._bodies, self._types, self._hints)
        groups = tuple([group for (group,) in self._index_of])
        key = self.key.replace(groups=groups, mixed=True)
        return bundle_parts(key, self._bodies, self._types, self._hints, self._group_indexes)
