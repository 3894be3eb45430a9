"""The properties of extended virtual synchrony, each once: statement, plain check, query, and witness.

A module has one property of the thesis or one section of them; daemons (EVS-S) and clients (EVS-C) are two
instances of each. `docs/properties.md` is made from them, `check/judge.py` runs the plain checks, and
`spark/audit` the queries, over tables that it makes.
"""

from typing import Final

from hopring.check.properties import (
    agreed,
    integrity,
    liveness,
    order,
    placement,
    primary,
    requests,
    resilience,
    safe,
    shape,
    signals,
    synchrony,
    views,
)
from hopring.check.properties.property import EVS_C

# Causes before effects: the first property that is broken is the one to look at.
SECTIONS: Final = {
    "the shape of the trace": shape.PROPERTIES,
    "views": views.PROPERTIES,
    "primary views": primary.PROPERTIES,
    "deliveries": (*integrity.PROPERTIES, *placement.PROPERTIES),
    "order": order.PROPERTIES,
    "those who move together": (
        *synchrony.PROPERTIES,
        *signals.PROPERTIES,
        *agreed.PROPERTIES,
        *safe.PROPERTIES,
    ),
    "resilient messages": resilience.PROPERTIES,
    "requests and own messages": requests.PROPERTIES,
    "the end": liveness.PROPERTIES,
}
PROPERTIES: Final = tuple([one for section in SECTIONS.values() for one in section])
DAEMONS: Final = tuple([one.daemons for one in PROPERTIES if one.daemons is not None])
CLIENTS: Final = tuple([one.clients for one in PROPERTIES if one.clients is not None])


def statement_of(name: str) -> str:
    """The sentence of the property with this name, of daemons or of clients; empty if there is none."""
    return next((one.statement for one in PROPERTIES if name.removeprefix(EVS_C) == one.name), "")
