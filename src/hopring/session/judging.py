"""What a client says, judged: whether it may say that now, and within its window.

A PeerError is raised before anything has changed.
"""

from hopring.errors import Drop, PeerError
from hopring.groups.events import Send
from hopring.session.dialect import Admitted, Said
from hopring.session.options import REQUEST_COST_BYTES
from hopring.session.session import Session, State
from hopring.session.words import Ask, Credit, Hello, Join, Leave, Quit


def judge(session: Session, said: Said, window_bytes: int) -> None:
    """A request is charged to the client's window, a credit is booked."""
    match session.state, said:
        case State.OPEN, Send():
            session.charge(REQUEST_COST_BYTES + len(said.bundle), window_bytes)
        case State.OPEN, Join() | Leave() | Ask():
            session.charge(REQUEST_COST_BYTES, window_bytes)
        case ((State.OPEN | State.ENDING), Credit()):
            session.taken(said)
        case (State.STRANGER, Hello() | Admitted()) | (State.OPEN, Quit()):
            pass
        case _:
            what = type(said).__name__.upper()
            raise PeerError(Drop.INCONSISTENT, f"{what} of a client that is {session.state.value}")
