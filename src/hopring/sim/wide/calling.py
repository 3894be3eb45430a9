"""Durable calls of simulated clients: asked by a name, answered by who gets them, taken up after a crash.

A host notes which calls its clients have made, as a program does on its disk: the next client process there
asks again by the same name, or has done with what it got.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hopring.check.wide.history import (
    WideCallAccepted,
    WideCallAnswered,
    WideCallAnswerSent,
    WideCalled,
    WideSent,
)
from hopring.haul.entries import Accepted, Answer, CallDoneRequest, CastRequest, ClientRequest
from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.order.events import CastKind, Parcel

if TYPE_CHECKING:
    from hopring.sim.wide.clients import SimWideClient

LOOK_US: Final = 1_000_000
"""How often a caller looks whether it has an answer."""


@dataclass(slots=True)
class SimCall:
    """What a host has noted of one call."""

    name: str
    set: str
    talk: Talk
    to: ClusterId
    message: str
    accepted: bool = False
    answered: bool = False


class SimCalls:
    """The calls of one life of a client process."""

    def __init__(self, client: "SimWideClient") -> None:
        self._client = client

    @property
    def _noted(self) -> dict[str, SimCall]:
        return self._client.home.calls.setdefault(self._client.host, {})

    def ask(self, name: str, talk: Talk, to: ClusterId) -> None:
        """Makes a call to a cluster."""
        client = self._client
        home = client.home
        client.number += 1
        message = f"{client.name}:{client.number}"
        call = SimCall(f"call {message}", name, talk, to, message)
        of = name, talk, CastKind.CBCAST, clusters_mask([to]), 0, client.number, False
        home.note(WideSent(client.name, home.me, message, *of))
        home.note(WideCalled(client.name, home.me, name, call.name, message, to))
        home.world.calls[message] = call.name
        self._noted[call.name] = call
        self._send(call, message.encode().ljust(home.world.body_bytes, b" "), message)

    def _send(self, call: SimCall, body: bytes, message: str) -> None:
        client = self._client
        of = client.name, client.number, 0, call.set, call.talk.participants, call.talk.name
        made = CastRequest(*of, CastKind.CBCAST, 0, call.to, body, notify=False, call=call.name)
        client.ask(made, message)

    def resume(self) -> None:
        """Goes on where the last process of this host stopped."""
        for call in list(self._noted.values()):
            if call.accepted and not call.answered:
                self._client.number += 1
                self._send(call, b"asked again", "")
            else:
                self._done(call)

    def _done(self, call: SimCall) -> None:
        client = self._client
        call.answered = True
        client.number += 1
        client.ask(CallDoneRequest(client.name, client.number, 0, call.set, call.name), "")

    def told(self, request: ClientRequest, answer: Answer) -> None:
        """A request has its answer, perhaps one about a call."""
        if isinstance(request, CastRequest) and request.answers:
            self._served(request, answer)
            return
        name = request.call if isinstance(request, CastRequest | CallDoneRequest) else ""
        call = self._noted.get(name)
        if call is None:
            return
        if isinstance(request, CallDoneRequest):
            del self._noted[call.name]
            return
        parcel = answer.parcel if isinstance(answer, Accepted) else None
        if parcel is None and not call.accepted:
            del self._noted[call.name]  # It was refused.
            return
        home = self._client.home
        call.accepted = True
        home.note(WideCallAccepted(home.me, call.set, call.name, parcel or ParcelId(home.me, 0)))
        self._look(call)

    def _look(self, call: SimCall) -> None:
        """Asks a member for the answer."""
        client = self._client
        home = client.home
        if not client.runs or call.answered:
            return
        body = self._answer(call)
        if body is None:
            home.world.engine.after(LOOK_US, self._look, call)
            return
        home.note(WideCallAnswered(client.name, home.me, call.set, call.name, body.decode().rstrip()))
        self._done(call)

    def _answer(self, call: SimCall) -> bytes | None:
        for process in self._client.home.processes.values():
            core = process.core
            if not core.serving or not self._client.home.lan.together(process.host, self._client.host):
                continue
            managed = core.app.sets[call.set]
            found = managed.calls.by_name.get(call.name)
            if found is None or found.answer is None or not core.keeping.has_body(call.set, found.answer):
                return None
            body = managed.bodies.get(found.answer)
            return process.disk.bodies[call.set, found.answer] if body is None else body
        return None

    def serve(self, name: str, message: str, parcel: Parcel) -> None:
        """A message has come, which may be a call."""
        client = self._client
        home = client.home
        if message not in home.world.calls:
            return
        client.number += 1
        text = f"{message} answered by {client.name}:{client.number}"
        home.note(WideCallAnswerSent(home.me, parcel.id.sender, name, message, text, accepted=False))
        talk = parcel.talk.participants, parcel.talk.name
        of = client.name, client.number, 0, name, *talk, CastKind.CBCAST, 0, parcel.id.sender
        answer = CastRequest(*of, text.encode(), notify=False, answers=parcel.id.number)
        client.ask(answer, "")

    def _served(self, request: CastRequest, answer: Answer) -> None:
        """An answer of this client is accepted, or not."""
        if isinstance(answer, Accepted):
            text = request.body.decode()
            of = self._client.home.me, request.to, request.set, text.split(" answered by ")[0], text
            self._client.home.note(WideCallAnswerSent(*of, accepted=True))
