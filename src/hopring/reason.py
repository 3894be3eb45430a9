"""The reason of a view change as facts: what failed, between which daemons, who noticed it and when.

Every member of an attempt reports in its STATETRANS why it left its last view. All members install the new view
with the same of these reasons, the most telling one: so a daemon that did not run says so, and the others
repeat that instead of blaming whom they missed. Daemons have numbers here; drivers add the names.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

import msgspec

from hopring.ids import DAEMONS_MAX, NOBODY, DaemonId

DETAIL_CHARACTERS_MAX: Final = 200
TIME_US_MAX: Final = 2**53

_Daemon = Annotated[int, msgspec.Meta(ge=0, lt=DAEMONS_MAX)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_US_MAX)]


class ReasonKind(StrEnum):
    """What made a view change, the most telling first."""

    STALL = "stall"  # The witness did not run: it was stopped, starved of processor time or suspended.
    LEAVE = "leave"  # The peer stopped in an orderly way.
    RELOAD = "reload"  # The witness changed its configuration.
    OPERATOR = "operator"  # An operator made the view primary.
    DISK = "disk"  # The witness could not write its mark.
    PROTOCOL = "protocol"  # A peer broke the protocol.
    LINK = "link"  # The link between the sites of witness and peer: silent, closed or without progress.
    RING = "ring"  # The ring of the site of the witness: no token, or a packet that did not come.
    OVERLOAD = "overload"  # More data waits for a link or a ring than may.
    LATE = "late"  # An attempt to form a view took too long.
    LOST = "lost"  # The witness only heard that the peer had lost the view, or had given up an attempt.
    START = "start"  # The witness has started.
    MERGE = "merge"  # Views find each other; nothing was lost.


class LossFacts(NamedTuple):
    """What a layer knows of a loss, beside its words."""

    peer: DaemonId | None = None  # The other end of a link, who is suspected in a ring, or who left.
    silence_us: int = 0  # For how long nothing was heard; 0 if that is not the reason.
    absence: bool = False  # Somebody was not heard, or gave up: the cause may be that this daemon did not run.


NO_FACTS: Final = LossFacts()

RANKS: Final = {kind.value: rank for rank, kind in enumerate(ReasonKind)}
RANKS[ReasonKind.RING] = RANKS[ReasonKind.LINK]  # Of these two the one that was noticed first.


class ViewReason(msgspec.Struct, frozen=True, array_like=True):
    """The reason of one daemon, the witness. Its fields are those of STATETRANS on the wire."""

    kind: Annotated[str, msgspec.Meta(max_length=32)]  # Of `ReasonKind`, or one that a later version has.
    witness: _Daemon
    peer: _Daemon | None = None  # The other daemon, if the witness knows which.
    silence_us: _Time = 0  # For how long the witness had heard nothing, or had not run.
    noticed_us: _Time = 0  # How long ago the witness noticed: before STATETRANS, or before the view.
    detail: Annotated[str, msgspec.Meta(max_length=256)] = ""  # The words of the layer that noticed.

    @property
    def last_heard_us(self) -> int:
        """How long ago the peer was heard last; for a stall, how long ago it began."""
        return self.noticed_us + self.silence_us

    @property
    def loss(self) -> bool:
        """Whether a view was lost, so that the other members may repeat it."""
        return self.kind not in (ReasonKind.START, ReasonKind.MERGE)

    def text(self, me: int) -> str:
        """The reason as one line for the log of this daemon."""
        mine, who = self.witness == me, f"daemon {self.witness}"
        if self.kind == ReasonKind.STALL:
            return f"{'this daemon' if mine else who} did not run for {self.silence_us / 1e6:.1f} s"
        plain = self.kind == ReasonKind.LEAVE or not self.loss
        return self.detail if mine or plain else f"{who}: {self.detail}"


def reason_of(
    kind: ReasonKind, witness: DaemonId, detail: str, peer: DaemonId | None = None, silence_us: int = 0
) -> ViewReason:
    """A reason that this daemon has just noticed."""
    silence_us = min(max(silence_us, 0), TIME_US_MAX)
    return ViewReason(kind.value, witness, peer, silence_us, 0, detail[:DETAIL_CHARACTERS_MAX])


def most_telling(reasons: Iterable[ViewReason]) -> ViewReason:
    """The one of these that says most: by kind, then the earliest noticed, then the lowest witness."""
    unknown = RANKS[ReasonKind.LOST]
    return min(reasons, key=lambda one: (RANKS.get(one.kind, unknown), -one.noticed_us, one.witness))


def reason_names(
    reason: ViewReason, names: Mapping[int, str], sites: Mapping[int, str]
) -> tuple[str, str, str]:
    """The names of witness, peer and link (two sites, or the site of a ring); empty where there is none."""
    if not reason.loss:
        return "", "", ""
    peer = NOBODY if reason.peer is None else reason.peer
    here, there = sites.get(reason.witness, ""), sites.get(peer, "")
    link = here if reason.kind == ReasonKind.RING else ""
    if reason.kind == ReasonKind.LINK and here and there:
        link = "-".join(sorted([here, there]))
    return names.get(reason.witness, ""), names.get(peer, ""), link
