"""What a daemon spools, and the command line of the process that does it."""

from dataclasses import replace
from pathlib import Path

import pytest

from hopring.config import SpoolTuning, local_config
from hopring.daemon.clients.listening import ClientAddresses
from hopring.daemon.process.command_line import StartRefused, command_line
from hopring.daemon.process.spooler_process import client_url, spool_command, spool_settings

CONFIG = local_config({"eu": 2})
SPOOL = SpoolTuning("{cluster}/{name}", ("trades.*",), ("eu1",), sync_us=0, retain_bytes=2**30)


def settings(*words: str, spool: SpoolTuning = SPOOL, name: str = "eu1") -> SpoolTuning | None:
    arguments = command_line().parse_args(["/etc/hopring/hop.toml", "--name", name, *words])
    return spool_settings(arguments, replace(CONFIG, spool=spool))


def test_only_the_daemons_of_the_table_spool() -> None:
    found = settings()

    assert found is not None
    assert found.directory == f"/etc/hopring/{CONFIG.cluster}/eu1"
    assert settings(name="eu2") is None
    assert settings(spool=SpoolTuning()) is None
    everybody = settings(spool=replace(SPOOL, daemons=None), name="eu2")
    assert everybody is not None
    assert everybody.directory == f"/etc/hopring/{CONFIG.cluster}/eu2"


def test_flags_override_the_table() -> None:
    found = settings("--spool", "/s", "--spool-group", "a", "--spool-group", "b", name="eu2")

    assert found == replace(SPOOL, directory="/s", groups=("a", "b"), daemons=None)


def test_half_of_the_flags_is_refused() -> None:
    for words in (("--spool", "/s"), ("--spool-group", "a")):
        with pytest.raises(StartRefused):
            settings(*words, spool=SpoolTuning())


def test_the_command_line_has_each_setting_with_its_unit() -> None:
    found = settings()
    assert found is not None
    words = spool_command(replace(found, retain_until_archived=True), "hop://127.0.0.1:1")

    assert words[words.index("--end-with-stdin") :] == [
        "--end-with-stdin",
        f"--spool=/etc/hopring/{CONFIG.cluster}/eu1",
        "--at=hop://127.0.0.1:1",
        "--name=spooler",
        "--group=trades.*",
        "--sync=0us",
        "--retain=1GiB",
        "--retain-until-archived",
    ]


def test_it_connects_by_the_unix_socket_or_else_the_port() -> None:
    assert client_url(ClientAddresses(Path("/run/a b.sock"), ("127.0.0.1", 1))) == "hop+unix:///run/a%20b.sock"
    assert client_url(ClientAddresses(None, ("0.0.0.0", 4893))) == "hop://127.0.0.1:4893"
    assert client_url(ClientAddresses(None, ("::", 4893))) == "hop://[::1]:4893"
    with pytest.raises(StartRefused):
        client_url(ClientAddresses(None, None))
