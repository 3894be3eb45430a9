"""Questions that members answer without the log: status, and whether a parcel is everywhere; for tests, cuts.

They are requests (blocks/) to the servers of one group of the cluster; questions and answers are JSON objects.
"""

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from hopring.client.events import Request
from hopring.errors import HopError
from hopring.haul.application import ApplicationManager
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, clusters_in
from hopring.haul.status import WideStatus

if TYPE_CHECKING:
    from hopring.wide.process.member_process import MemberProcess

ASK_STATUS: Final = "status"
ASK_EVERYWHERE: Final = "everywhere"
ASK_ANSWER: Final = "answer"
ASK_CUT: Final = "cut"


class QueryRefused(HopError):
    """A question that no command of this version asks."""


class MemberQueries:
    """Answers the questions about one member."""

    def __init__(self, process: "MemberProcess") -> None:
        self._process = process

    def answer(self, request: Request) -> bytes:
        """The answer to one question."""
        try:
            asked = json.loads(request.data)
            verb = asked["ask"]
        except (ValueError, KeyError, TypeError):
            raise QueryRefused("no question; give both ends the same version") from None
        if verb == ASK_STATUS:
            return json.dumps(self._status()).encode()
        if verb == ASK_EVERYWHERE:
            return json.dumps(self._everywhere(asked)).encode()
        if verb == ASK_ANSWER:
            return self._call_answer(str(asked.get("set")), str(asked.get("call")))
        if verb == ASK_CUT and self._process.setup.dangerous:
            self._process.streams.cut_off({ClusterId(int(one)) for one in asked.get("clusters", [])})
            return b"{}"
        raise QueryRefused(f"{verb!r:.60} is no question; give both ends the same version")

    def _everywhere(self, asked: dict[str, Any]) -> dict[str, bool]:
        name, number = str(asked.get("set")), int(asked.get("parcel", 0))
        return {"everywhere": is_everywhere(self._process.core.app, name, number)}

    def _call_answer(self, name: str, call: str) -> bytes:
        """The body of the answer to a call; nothing as long as it is not here."""
        core = self._process.core
        managed = core.app.sets.get(name)
        found = None if managed is None else managed.calls.by_name.get(call)
        if managed is None or found is None or found.answer is None:
            return b""
        if not core.keeping.has_body(name, found.answer):
            return b""  # This member has not got it from the others yet.
        body = managed.bodies.get(found.answer)
        return self._process.body((name, found.answer)) if body is None else body

    def _status(self) -> dict[str, Any]:
        process = self._process
        file, cluster = process.setup.file, process.setup.cluster
        status = process.core.snapshot()
        return {
            "wide": file.wide,
            "cluster": cluster.name,
            "member": process.setup.member,
            "pid": os.getpid(),
            "serving": status.serving,
            "epoch": status.epoch,
            "members": list(cluster.members),
            "serving_members": list(status.members),
            "clusters": {one.name: one.id for one in file.clusters},
            "digest": file.whole_digest,
            "refused": dict(process.streams.refused),
            "links": self._links(status),
            "sets": self._sets(status),
            "spools": self._spools(status),
        }

    def _links(self, status: WideStatus) -> list[dict[str, Any]]:
        name_of = self._process.setup.file.name_of
        me = self._process.setup.cluster.name
        return [
            {
                "cluster": name_of(one.peer),
                "on": one.is_on,
                "open": one.is_open,
                "member": one.member,
                "generation": list(one.generation),
                "schedule": self._process.setup.file.link(me, name_of(one.peer)).written,
            }
            for one in status.links
        ]

    def _sets(self, status: WideStatus) -> list[dict[str, Any]]:
        return [
            {
                **{key: value for key, value in asdict(one).items() if key not in ("clusters", "disputed")},
                "clusters": self._names(one.clusters),
                "disputed": {
                    self._process.setup.file.name_of(peer): self._names(mask) for peer, mask in one.disputed
                },
                "durable": dict(one.durable),
            }
            for one in status.sets
        ]

    def _spools(self, status: WideStatus) -> list[dict[str, Any]]:
        name_of = self._process.setup.file.name_of
        return [
            {
                "set": one.set,
                "to": None if one.peer is None else name_of(one.peer),
                "on": one.is_on,
                "messages": one.messages,
                "bytes": one.size_bytes,
                "on_disk": one.on_disk,
            }
            for one in status.spools
        ]

    def _names(self, mask: ClusterMask) -> list[str]:
        return [self._process.setup.file.name_of(one) for one in clusters_in(mask)]


def is_everywhere(app: ApplicationManager, name: str, number: int) -> bool:
    """Whether all destinations are known to have a parcel of this cluster; what is not known here is not."""
    managed = app.sets.get(name)
    if managed is None:
        return False
    descriptors = managed.core.descriptors
    if not 0 < number <= descriptors.known[app.me]:
        return False
    found = descriptors.find(ParcelId(app.me, number))
    return found is None or not found.missing
