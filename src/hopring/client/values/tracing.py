"""W3C trace context in headers of messages, by the propagator of OpenTelemetry, which is an extra.

A session with `trace_context=True` gives each message the context of the span that is active at the call, in
the headers `traceparent`, `tracestate` and `baggage`. Without an active span a message has none of them, and is
as without the option. Receivers ask for the context of a message; handlers of requests run in that of theirs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from hopring.client.arguments import check_flag
from hopring.client.errors import MissingExtra
from hopring.client.events import Message, Request
from hopring.wire.envelope import (
    ENVELOPE_BYTES_MAX,
    ENVELOPE_SPARE_BYTES,
    HEADER_NAME_BYTES_MAX,
    HEADER_SIZES_BYTES,
    HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX,
)

TRACE_HEADERS: Final = ("traceparent", "tracestate", "baggage")
"""The headers of W3C, the most important first: where not all fit, the last are left out."""


def propagator() -> Any:
    """The module of OpenTelemetry that puts contexts into headers; MissingExtra if it is not installed."""
    try:
        return import_module("opentelemetry.propagate")
    except ImportError:
        raise MissingExtra("trace_context", "opentelemetry-api", "opentelemetry") from None


def check_tracing(wanted: object) -> None:
    """Checks the argument `trace_context` of `connect`: errors come now, not at the first message."""
    check_flag("trace_context", wanted)
    if wanted:
        propagator()


def with_trace(headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """The headers with the context of the active span; those of the application come first, and stay."""
    carrier: dict[str, str] = {}
    propagator().inject(carrier)
    if not carrier or not (headers is None or isinstance(headers, Mapping)):
        return headers  # What is no mapping is refused with the other arguments.
    merged = dict(headers or {})
    for name in sorted(carrier, key=_rank):
        if name not in merged and _fits(merged, name, carrier[name]):
            merged[name] = carrier[name]
    return merged


def _rank(name: str) -> tuple[int, str]:
    return (TRACE_HEADERS.index(name) if name in TRACE_HEADERS else len(TRACE_HEADERS), name)


def _fits(headers: Mapping[str, str], name: str, value: str) -> bool:
    """Whether one more header keeps the limits; a context that does not is no error of the application."""
    sizes = [len(str(part).encode(errors="replace")) for pair in headers.items() for part in pair]
    size_bytes = sum(sizes) + HEADER_SIZES_BYTES * (len(headers) + 1)
    name_bytes, value_bytes = len(name.encode()), len(value.encode())
    small = name_bytes <= HEADER_NAME_BYTES_MAX and value_bytes <= HEADER_VALUE_BYTES_MAX
    most = ENVELOPE_BYTES_MAX - ENVELOPE_SPARE_BYTES
    return small and len(headers) < HEADERS_MAX and size_bytes + name_bytes + value_bytes <= most


def trace_context(message: Message[Any] | Request) -> Any:
    """The `opentelemetry.context.Context` of a message or a request; empty if its sender gave none."""
    return propagator().extract(dict(message.headers))


@contextmanager
def attached(request: Request) -> Iterator[None]:
    """Makes the context of a request the current one, for its handler and the tasks that it starts."""
    context = import_module("opentelemetry.context")
    token = context.attach(trace_context(request))
    try:
        yield
    finally:
        context.detach(token)
