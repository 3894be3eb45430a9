"""Numbers of the pure layers are replaced by names in texts for people."""

from hopring.ids import DaemonId, named

NAMES = {DaemonId(0): "eu1", DaemonId(12): "us1"}


def test_daemons_and_sites_get_their_names_and_unknown_numbers_stay() -> None:
    assert (
        named("link with daemon 12: nothing heard for 12 ms", NAMES) == "link with us1: nothing heard for 12 ms"
    )
    assert named("daemon 0 is not my parent in the tree of site 1", NAMES, ["eu", "us"]) == (
        "eu1 is not my parent in the tree of site us"
    )
    assert named("daemon 7 leaves site 3", NAMES, ["eu"]) == "daemon 7 leaves site 3"
    assert named("this daemon did not run for 3.2 s", NAMES) == "this daemon did not run for 3.2 s"
