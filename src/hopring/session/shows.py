"""What groups show to sessions: who wants to see it, and how it is written in a session's dialect."""

from typing import assert_never

from hopring.groups.events import DeliverBundle, LeftGroup, ShowSignal, ShowView
from hopring.ids import Process
from hopring.session.dialect import Dialect
from hopring.session.held import Held
from hopring.session.session import Session

Shown = DeliverBundle | ShowView | ShowSignal | LeftGroup


def numbers(shown: Shown) -> tuple[int, ...]:
    """The sessions that it is for."""
    return (shown.session,) if isinstance(shown, LeftGroup) else shown.sessions


def wants(session: Session, shown: Shown, me: Process) -> bool:
    """Messages go to all. Who asked for no membership sees only its own, and only in the native dialect."""
    if session.membership or isinstance(shown, DeliverBundle):
        return True
    if not session.dialect.native:
        return False
    who = shown.view.who if isinstance(shown, ShowView) else None
    return isinstance(shown, LeftGroup) or (
        who is not None and (who.process, who.session) == (me, session.number)
    )


def write(dialect: Dialect, shown: Shown) -> Held:
    """As the sessions of this dialect see it."""
    if isinstance(shown, DeliverBundle):
        return dialect.messages(shown)
    if isinstance(shown, ShowView):
        return dialect.view(shown)
    if isinstance(shown, ShowSignal):
        return dialect.signal(shown)
    if isinstance(shown, LeftGroup):
        return dialect.left(shown)
    assert_never(shown)
