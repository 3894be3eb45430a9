"""The names of the package that applications import."""

import subprocess
import sys

import pytest

import hopring
from hopring import sync
from hopring.groups.events import RefusalReason
from hopring.session import options


def test_every_public_name_is_there() -> None:
    assert [name for name in hopring.__all__ if not hasattr(hopring, name)] == []
    assert [name for name in sync.__all__ if not hasattr(sync, name)] == []


def test_reasons_have_the_same_text_at_both_ends() -> None:
    ours = [options.NAME_IN_USE, options.ALREADY_MEMBER, options.NOT_A_MEMBER]

    assert ours == [RefusalReason.NAME_IN_USE, RefusalReason.ALREADY_MEMBER, RefusalReason.NOT_A_MEMBER]


@pytest.mark.slow
def test_daemons_do_not_load_the_client_library() -> None:
    code = (
        "import hopring.daemon.hopd, sys; print([m for m in sys.modules if 'client.' in m or m == 'asyncio'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
