"""The metrics of a member in Prometheus' text format, and its pages by HTTP; docs/wide.md lists them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from hopring.daemon.admin.exposition import CONTENT_TYPE, Sample, by_reason, family, single
from hopring.daemon.admin.http_server import (
    CONNECTIONS_MAX,
    REQUEST_BYTES_MAX,
    REQUEST_US,
    BadRequest,
    HttpResponse,
    path_of,
)
from hopring.haul.ids import ClusterId
from hopring.haul.status import WideLinkStatus, WideSetStatus, WideSpoolStatus, WideStatus

_LINKS: Final[tuple[tuple[str, str, Callable[[WideLinkStatus], float]], ...]] = (
    ("wide_link_on", "Whether operators want the link.", lambda one: one.is_on),
    ("wide_link_open", "Whether a connection to the cluster counts.", lambda one: one.is_open),
)
_SPOOLS: Final[tuple[tuple[str, str, Callable[[WideSpoolStatus], float]], ...]] = (
    ("wide_spool_on", "Whether the spool is on.", lambda one: one.is_on),
    ("wide_spool_messages", "Messages that wait in the spool.", lambda one: one.messages),
    ("wide_spool_bytes", "Bytes that wait in the spool.", lambda one: one.size_bytes),
    ("wide_spool_on_disk", "Messages of the spool whose bodies are beside the log.", lambda one: one.on_disk),
)
_SETS: Final[tuple[tuple[str, str, str, Callable[[WideSetStatus], float]], ...]] = (
    ("wide_delivered_total", "counter", "Items of the line of the set here.", lambda one: one.delivered),
    ("wide_handed_total", "counter", "Items that the local group has got.", lambda one: one.handed),
    ("wide_delayed", "gauge", "Messages that wait for their causes.", lambda one: one.delayed),
    ("wide_calls", "gauge", "Calls whose callers are not done with them.", lambda one: one.calls),
    ("wide_descriptors", "gauge", "Runs of descriptors that are kept.", lambda one: one.descriptors),
)


def metrics_text(
    wide: str, status: WideStatus, name_of: Callable[[ClusterId], str], refused: Mapping[str, int]
) -> str:
    """All metrics of a member."""
    info = {"wide": wide, "cluster": name_of(status.cluster), "member": status.member}
    parts = [
        family("wide_info", "gauge", "The member.", [(info, 1)]),
        single("wide_serving", "gauge", "Whether a majority has the log in this view.", int(status.serving)),
        single("wide_epoch", "gauge", "The epoch of the log.", status.epoch),
        single("wide_members", "gauge", "Members that serve.", len(status.members)),
    ]
    for name, text, of_link in _LINKS:
        samples = [({"to": name_of(one.peer)}, float(of_link(one))) for one in status.links]
        parts.append(family(name, "gauge", text, samples))
    for name, text, of_spool in _SPOOLS:
        samples = [(_spool_labels(one, name_of), float(of_spool(one))) for one in status.spools]
        parts.append(family(name, "gauge", text, samples))
    for name, kind, text, of_set in _SETS:
        of_sets: list[Sample] = [({"set": one.name}, float(of_set(one))) for one in status.sets]
        parts.append(family(name, kind, text, of_sets))
    parts.append(by_reason("wide_refused_total", "Connections that were refused.", refused))
    return "".join(parts)


def _spool_labels(one: WideSpoolStatus, name_of: Callable[[ClusterId], str]) -> dict[str, str]:
    """A wSpool has no cluster that it is for."""
    return {"set": one.set, "to": "" if one.peer is None else name_of(one.peer)}


class MemberPages:
    """Serves /metrics, /healthz and /readyz of one member by HTTP, one request for each connection."""

    def __init__(self, text: Callable[[], str], serves: Callable[[], bool]) -> None:
        self._text = text
        self._serves = serves
        self._server: asyncio.Server | None = None
        self._visitors = 0

    async def open(self, address: tuple[str, int]) -> int:
        """Listens; returns the port. OSError if the address cannot be had."""
        self._server = await asyncio.start_server(self._visit, *address, limit=REQUEST_BYTES_MAX)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Ends the listener, if there is one."""
        if self._server is not None:
            self._server.close()

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._visitors += 1
        try:
            if self._visitors <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_US / 1_000_000):
                    writer.write((await self._answer(reader)).encode())
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # Too slow, or gone.
        finally:
            self._visitors -= 1
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> HttpResponse:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            path = path_of(head.removesuffix(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return HttpResponse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "too long\n")
        except BadRequest as error:
            return HttpResponse(error.status, f"{error}\n")
        if path == "/metrics":
            return HttpResponse(HTTPStatus.OK, self._text(), CONTENT_TYPE)
        if path == "/healthz":
            return HttpResponse(HTTPStatus.OK, "alive\n")
        if path == "/readyz" and self._serves():
            return HttpResponse(HTTPStatus.OK, "ready\n")
        if path == "/readyz":
            return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, "no majority has the log\n")
        return HttpResponse(HTTPStatus.NOT_FOUND, "there is /metrics and /healthz and /readyz\n")
