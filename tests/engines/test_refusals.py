"""What programs on daemons may do and programs on peers may not: it is refused, with the remedy."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from tests.engines.engines import Engine, group_of

from hopring import HopError, NotOffered, sync

pytestmark = pytest.mark.slow

Call = Callable[[sync.Session, str], object]

REFUSED: dict[str, tuple[Call, str]] = {
    "several groups": (
        lambda one, group: one.multicast_wait([group, f"{group}.b"], b"x", timeout_seconds=60),
        "send it to each group",
    ),
    "private groups": (
        lambda one, group: one.multicast_wait(f"#{group[:8]}#127.0.0.1:9", b"x", timeout_seconds=60),
        "join a group that it is in",
    ),
    "retained values": (
        lambda one, group: one.multicast_wait(group, b"x", retain=True, timeout_seconds=60),
        "send it again when somebody joins",
    ),
    "views and links of daemons": (lambda one, _group: one.view(timeout_seconds=60), "members of groups"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_request_that_peers_cannot_carry_out_says_so(engine: Engine, what: str) -> None:
    call, remedy = REFUSED[what]
    with sync.connect(engine.url(0), name="ann") as ann, ann.join(group_of(engine)) as group:
        if engine.name == "rmp":
            with pytest.raises(NotOffered, match=what) as refused:
                call(ann, group.name)
            assert remedy in str(refused.value)
            assert "\n" not in str(refused.value)
        elif what == "private groups":
            assert call(ann, group.name).members == 0  # type: ignore[attr-defined]
        else:
            assert call(ann, group.name)
        assert group.multicast_wait(b"goes on", timeout_seconds=60).members == 1


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"slow": "spill"}, "kick"),
        ({"slow": "block"}, "kick"),
        ({"priority": True}, "leave it out"),
        ({"token": "file"}, "leave them out"),
    ],
)
def test_a_session_that_peers_cannot_serve_is_refused_before_anything_begins(
    engine: Engine, options: dict[str, Any], remedy: str
) -> None:
    if engine.name == "rmp":
        with pytest.raises(NotOffered, match=remedy):
            sync.connect(engine.url(0), **options)
        return
    # Daemons offer these, some where they allow them or know users.
    with pytest.raises(HopError) if options != {"slow": "spill"} else nullcontext() as other:
        sync.connect(engine.url(0), **options).close()
    assert other is None or not isinstance(other.value, NotOffered)
