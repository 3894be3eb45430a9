"""What groups put out for sessions, as frames; each is made once, for however many sessions."""

from collections.abc import Sequence

from hopring.errors import Drop
from hopring.groups import names
from hopring.groups.events import (
    DeliverBundle,
    GroupView,
    JoinGroup,
    LeftGroup,
    RefusalReason,
    RequestRefused,
    ShowSignal,
    ShowView,
)
from hopring.session import words
from hopring.session.held import Held, Loss
from hopring.session.messages import messages_parts
from hopring.session.options import Slow
from hopring.session.place import Place
from hopring.session.words import encode_word

REMEDIES = {
    RefusalReason.ILLEGAL_NAME: "choose a name of 1 to 64 bytes without # and NUL",
    RefusalReason.NAME_IN_USE: "choose another name, or end the client that has it",
    RefusalReason.ILLEGAL_GROUP: "choose a name of 1 to 128 bytes without NUL that does not begin with #",
    RefusalReason.ALREADY_MEMBER: "join a group once; leave it first to join it again",
    RefusalReason.NOT_A_MEMBER: "join the group first",
}
_REMEDY = "use a client library of this version"
_REMEDIES_OF_DROPS = {
    Drop.MAGIC: "this port is for clients of hopring",
    Drop.VERSION: "use a client library of the daemon's version, or upgrade the daemon",
    Drop.OUT_OF_WINDOW: "keep to the credits",
    Drop.LIMIT: "keep to the limits that WELCOME tells",
}
_OF_HELLO = (RefusalReason.ILLEGAL_NAME, RefusalReason.NAME_IN_USE)


def messages(deliver: DeliverBundle) -> Held:
    """A bundle."""
    bundle = deliver.picked()
    lts, site = deliver.position
    parts = messages_parts(deliver.sender, Place(deliver.view, lts, site), bundle)
    size_bytes = 0
    for part in parts:
        size_bytes += len(part)
    return Held(parts, size_bytes, Loss(bundle.run.groups, len(bundle), len(bundle.bodies)))


def view(show: ShowView, daemons: Sequence[str]) -> bytes:
    """A view."""
    shown: GroupView = show.view
    place = {one: at for at, one in enumerate(shown.members)}
    return encode_word(
        words.View(
            shown.group,
            shown.id,
            tuple([member_word(one, daemons) for one in shown.members]),
            tuple([place[one] for one in shown.together]),
            shown.cause.value,
            None if shown.who is None else member_word(shown.who, daemons),
            tuple([tuple([place[one] for one in some]) for some in shown.sets]),
        )
    )


def signal(show: ShowSignal, daemons: Sequence[str]) -> bytes:
    """A signal."""
    together = tuple([member_word(one, daemons) for one in show.together])
    return encode_word(words.Signal(show.group, show.id, together))


def left(event: LeftGroup) -> bytes:
    """The end of a membership."""
    return encode_word(words.Left(event.group))


def refused(event: RequestRefused) -> words.Refused:
    """A refusal."""
    request = "hello" if event.refusal in _OF_HELLO else "join"
    if event.refusal is RefusalReason.NOT_A_MEMBER:
        request = "leave"
    return words.Refused(request, event.name[:256], str(event.refusal), REMEDIES[event.refusal])


def too_many_groups(request: JoinGroup, groups_max: int) -> words.Refused:
    """The refusal of a join by a session that is in as many groups as it may."""
    return words.Refused("join", request.group, f"more than {groups_max} groups", "leave some first")


def no_such_policy(policy: Slow, allowed: Sequence[Slow]) -> words.Refused:
    """The refusal of a HELLO whose policy for slow receivers this daemon does not have."""
    reason = "a policy for slow receivers that this daemon does not have"
    return words.Refused("hello", policy.value, reason, f"choose one of {', '.join(allowed)}")


def remedy(reason: Drop) -> str:
    """What a client can do that has to go for this."""
    return _REMEDIES_OF_DROPS.get(reason, _REMEDY)


def member_word(one: names.GroupMember, daemons: Sequence[str]) -> words.Member:
    """A member by names."""
    return words.Member(one.name, daemons[one.daemon], one.incarnation, one.session)
