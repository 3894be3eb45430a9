"""What groups show to sessions: who wants to see it, and how it is written in a session's dialect."""

from hopring.groups.events import Deliver, Left, ShowSignal, ShowView
from hopring.ids import Process
from hopring.session.dialect import Dialect
from hopring.session.held import Held
from hopring.session.session import Session

Shown = Deliver | ShowView | ShowSignal | Left


def numbers(shown: Shown) -> tuple[int, ...]:
    """The sessions that it is for."""
    return (shown.session,) if isinstance(shown, Left) else shown.sessions


def wants(session: Session, shown: Shown, me: Process) -> bool:
    """Messages go to all. Who asked for no membership sees only its own, and only in the native dialect."""
    if session.membership or isinstance(shown, Deliver):
        return True
    if not session.dialect.native:
        return False
    who = shown.view.who if isinstance(shown, ShowView) else None
    return isinstance(shown, Left) or (who is not None and (who.process, who.session) == (me, session.number))


def write(dialect: Dialect, shown: Shown) -> Held:
    """As the sessions of this dialect see it."""
    match shown:
        case Deliver():
            return dialect.messages(shown)
        case ShowView():
            return dialect.view(shown)
        case ShowSignal():
            return dialect.signal(shown)
        case Left():
            return dialect.left(shown)
