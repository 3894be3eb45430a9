"""Parts of the text of queries: services by their capabilities.

A query says `service IN {TOTAL}`; the numbers come from the table of services.
"""

from typing import Final

from hopring.services import Capability, services_with


def numbers(capability: Capability) -> str:
    """The services with this capability as a list, such as `(4, 5, 6)`."""
    return f"({', '.join([str(int(service)) for service in services_with(capability)])})"


LOOSE: Final = numbers("loose")
RELIABLE: Final = numbers("reliable")
EARLY: Final = numbers("early")
FIFO: Final = numbers("fifo")
TOTAL: Final = numbers("total")
STABLE: Final = numbers("stable")
