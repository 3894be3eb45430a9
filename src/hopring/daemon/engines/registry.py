"""The engines that a daemon can run: one row for each."""

from collections.abc import Callable
from typing import Final

from hopring.daemon.engines.host import EngineHost, HostSetup
from hopring.daemon.engines.membership_host import membership_host

MakeHost = Callable[[HostSetup], EngineHost]
"""Opens the sockets of an engine and starts it; BindError if one cannot be opened."""

DEFAULT_ENGINE: Final = "membership"

ENGINES: Final[dict[str, MakeHost]] = {DEFAULT_ENGINE: membership_host}
