"""W3C trace context in headers, by the real API of OpenTelemetry."""

import subprocess
import sys

import pytest

from hopring import Headers, Message, trace_context
from hopring.client.values.tracing import with_trace
from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service

trace = pytest.importorskip("opentelemetry.trace")
baggage = pytest.importorskip("opentelemetry.baggage")
context = pytest.importorskip("opentelemetry.context")

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def span() -> object:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    state = trace.TraceState([("vendor", "x")])
    return trace.NonRecordingSpan(trace.SpanContext(TRACE, SPAN, False, flags, state))


def test_the_active_span_is_in_the_headers_and_comes_back_as_a_context() -> None:
    with trace.use_span(span()):
        headers = with_trace({"source": "desk 7"})

    assert headers == {"source": "desk 7", "traceparent": PARENT, "tracestate": "vendor=x"}
    place = Place(ViewId(0, DaemonId(0), Incarnation(0)), 0, 0)
    came = Message("#a#b", ("g",), b"", Service.AGREED, 0, place, Headers(headers))
    found = trace.get_current_span(trace_context(came)).get_span_context()
    assert (found.trace_id, found.span_id, found.is_remote) == (TRACE, SPAN, True)


def test_without_a_span_headers_stay_as_they_are() -> None:
    own = {"source": "desk 7"}

    assert with_trace(None) is None
    assert with_trace(own) is own


def test_headers_of_the_application_are_not_replaced() -> None:
    with trace.use_span(span()):
        headers = with_trace({"traceparent": "mine"})

    assert headers == {"traceparent": "mine", "tracestate": "vendor=x"}


def test_a_context_that_is_too_long_for_headers_is_left_out() -> None:
    token = context.attach(baggage.set_baggage("long", "x" * 5_000))
    try:
        with trace.use_span(span()):
            headers = with_trace({str(at): "y" for at in range(31)})
    finally:
        context.detach(token)

    assert headers is not None
    assert len(headers) == 32
    assert headers["traceparent"] == PARENT


def test_a_session_loads_opentelemetry_only_if_it_is_asked_to() -> None:
    script = "import sys, hopring.client.aio, hopring.sync; print('opentelemetry' in sys.modules)"

    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert out.stdout == "False\n"
