import errno
import os

import pytest

from hopring.config import Daemon, MulticastConfig, Site
from hopring.daemon.net.bind_errors import BindError, explain_bind_error, explain_join_error

EU1 = Daemon("eu1", "10.1.0.11")
EU = Site("eu", (EU1,), MulticastConfig("239.192.7.1", 4890))


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.EADDRINUSE, "end the process that has it"),
        (errno.EADDRNOTAVAIL, "start the daemon on the host that has the address"),
        (errno.EACCES, "choose a port of at least 1024"),
        (errno.ENOBUFS, "check address and port"),
    ],
)
def test_an_address_that_cannot_be_opened_is_named_with_the_remedy(number: int, remedy: str) -> None:
    with (
        pytest.raises(BindError, match=f"^eu1: TCP port 4892 of 10.1.0.11: .*; {remedy}"),
        explain_bind_error(EU1, "TCP"),
    ):
        raise OSError(number, os.strerror(number))


def test_a_multicast_group_that_cannot_be_joined_is_named_with_the_alternative() -> None:
    told = r"239.192.7.1.*No such device; .*remove `multicast` from sites.eu"
    with pytest.raises(BindError, match=told), explain_join_error(EU, EU1):
        raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
