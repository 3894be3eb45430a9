"""The sample that `hop config example` prints."""

from typing import Final

SAMPLE: Final = """\
# One file describes the whole cluster. Every daemon gets the same file and finds itself in it by name.

cluster = "example"          # Daemons of another cluster, or with another file, are not listened to.
default_weight = "80ms"      # Of links that give none. A duration counts in microseconds.

# How soon silent sites let messages of others go on, and more; docs/configuration.md has all keys.
# [membership]
# update_delta = "20ms"

# The admin channel, for `hop monitor`; without it there is none.
# [admin]
# socket = "/run/hopring/{name}.admin"
# allow = ["cut", "window", "reload", "terminate"]

# A site is a set of daemons on one local network. They share a ring.

[sites.eu]
# On a network with multicast the ring sends once instead of to each daemon:
# multicast = { group = "239.192.7.1", port = 4890 }

[[sites.eu.daemons]]
name = "eu1"
address = "10.1.0.11"        # By which all other daemons reach it; IPv4 or IPv6.
port = 4892                  # UDP, and TCP for links that use it; this is the default.

[[sites.eu.daemons]]
name = "eu2"
address = "10.1.0.12"

[sites.us]

[[sites.us.daemons]]
name = "us1"
address = "10.2.0.11"

[sites.ap]

[[sites.ap.daemons]]
name = "ap1"
address = "10.3.0.11"

# Every pair of sites is a link; with `mesh = false` (at the top) only those listed here are. Bundles take the
# way with the smallest sum of weights: try `hop routes` on this file.

[[links]]
between = ["eu", "us"]
weight = "40ms"
# rate = "200Mbit"           # Without it, congestion control that is fair to TCP.
# silence = "2s"             # How long the other end may be silent before the link has failed.

[[links]]
between = ["us", "ap"]
weight = "60ms"
# protocol = "tcp"           # Where UDP does not get through; the default is "hop".
"""
