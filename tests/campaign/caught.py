"""Planted bugs, each with a seed that catches it and the property that is broken."""

# By bug: a seed whose world catches it, and the property that is broken. `rift-ignored` takes too many worlds
# (docs/campaign.md); tests/unit/groups/test_rifts.py tests what it breaks.
CAUGHT = {
    "early-missed": (12, "EVS-C 2.15 self delivery"),
    "interest-per-site": (3, "EVS-C 2.7 virtual synchrony"),
    "join-unannounced": (9, "EVS-C 2.7 virtual synchrony"),
    "mixed-not-sorted": (1, "EVS-C 2.1 initial view event"),
    "once-for-each-group": (1, "EVS-C 2.5 no duplication"),
    "request-lost": (1, "EVS-C what a session asks for is carried out"),
    "sides-share-ids": (1, "EVS-C 2.4 transitional set"),
    "ways-ignored": (27, "EVS-C 2.8 transitional signals"),
}
