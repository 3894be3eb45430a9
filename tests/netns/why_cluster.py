"""Five daemons in three sites whose faults `hop why` has to name, asked from all sides or from one."""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result
from tests.hopd.daemon_processes import DaemonProcesses
from tests.netns.three_sites import ThreeSites, make_config
from tests.support.waiting import until

from hopring.cli.daemon_session import Unreachable
from hopring.cli.main import cli
from hopring.cli.monitor.admin_client import AdminClient, ask
from hopring.config import AdminTuning, LinkTuning, RingTuning

NAMES: Final = ("ap1", "eu1", "eu2", "us1", "us2")
SECONDS_MAX: Final = 90.0
ASK_SECONDS: Final = "3"
CGROUP: Final = Path("/sys/fs/cgroup/cpu")


@dataclass(frozen=True)
class Told:
    """The last incident that `hop why` tells, or a daemon that is not with the others."""

    fault: str
    where: str
    text: str
    remedy: str


class WhyCluster:
    """The daemons, what can be done to them, and what `hop why` says."""

    def __init__(self, world: ThreeSites, daemons: DaemonProcesses, directory: Path) -> None:
        self.world = world
        self.daemons = daemons
        self.directory = directory

    # What they see.

    def views(self) -> dict[str, tuple[str, ...]]:
        """The members of each settled view, by daemon."""
        try:
            fleet = AdminClient([self.directory], 10.0).look()
        except Unreachable:
            return {}
        return {one.name: tuple(one.status["members"]) for one in fleet.seen if one.status["phase"] == "OP"}

    def until_views(self, *sides: Sequence[str]) -> None:
        """Waits until each of these sides is a view of its own."""
        wanted = {name: tuple(side) for side in sides for name in side}
        until(lambda: wanted.items() <= self.views().items(), self.report, SECONDS_MAX, 0.2)

    def until_changed(self, before: dict[str, int], *names: str) -> None:
        """Waits until these daemons have installed another view since."""
        until(lambda: all(self.counts()[one] > before[one] for one in names), self.report, SECONDS_MAX, 0.2)

    def counts(self) -> dict[str, int]:
        """How many views each daemon has logged."""
        return {name: self.daemons.log(name).count(" view id=") for name in NAMES}

    def report(self) -> str:
        """Views and the ends of the logs, for a failure."""
        logs = "\n".join([f"--- {name}\n{self.daemons.log(name)[-1_500:]}" for name in NAMES])
        return f"{self.views()}\n{logs}"

    def whole(self) -> None:
        """Waits until all daemons share a view."""
        self.until_views(NAMES)

    # What `hop why` says.

    def why(self, *words: str, of: Sequence[str] = ()) -> Result:
        """Runs the command at these daemons, or at all."""
        places = [self.directory / f"{name}.admin" for name in of] or [self.directory]
        asked = [word for place in places for word in ("--admin", str(place))]
        return CliRunner().invoke(cli, ["why", *asked, "--timeout", ASK_SECONDS, *words])

    def told(self, *words: str, of: Sequence[str] = ()) -> Told:
        """The last incident; of none, the first daemon that is not with the others."""
        result = self.why("--json", *words, of=of)
        assert result.exit_code == 0, result.output
        story: dict[str, Any] = json.loads(result.stdout)
        strangers = [one for one in story["strangers"] if one["fault"] == "refused"]
        found = strangers or story["incidents"][-1:]
        assert found, (story, self.report())
        one = found[0]
        return Told(one["fault"], one["where"], one["text"], one["remedy"])

    def wait_for_story(self, right: Callable[[Told], bool], *words: str, of: Sequence[str] = ()) -> Told:
        """The story once it is right: the last events of a change may still be on their way."""
        last: list[Told] = []

        def found() -> bool:
            last[:] = [self.told(*words, of=of)]
            return right(last[0])

        until(found, lambda: f"{last}\n{self.why(of=of).output}\n{self.report()}", 30.0, 0.5)
        return last[0]

    # What is done to them.

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Stops a process for the block."""
        process = self.daemons.processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @contextmanager
    def starved(self, name: str) -> Iterator[None]:
        """Gives a process a thousandth of a processor for the block."""
        group = CGROUP / f"hopring-{os.getpid()}"
        group.mkdir()
        pid = str(self.daemons.processes[name].pid)
        try:
            (group / "cpu.cfs_period_us").write_text("1000000")
            (group / "cpu.cfs_quota_us").write_text("1000")
            (group / "cgroup.procs").write_text(pid)
            yield
        finally:
            with suppress(OSError):
                (CGROUP / "cgroup.procs").write_text(pid)
            group.rmdir()

    def until_log(self, name: str, text: str, count: int = 1) -> None:
        """Waits until the log of a daemon has this text so many times."""
        until(lambda: self.daemons.log(name).count(text) >= count, self.report, SECONDS_MAX, 0.2)

    def ask_daemon(self, name: str, request: dict[str, object]) -> None:
        """Sends one request to the admin channel of a daemon."""
        fields = {key: value for key, value in request.items() if key != "verb"}
        answer = ask(self.directory / f"{name}.admin", 30.0, str(request["verb"]), **fields)
        assert answer.ok, answer.words

    def ask(self, *words: str) -> None:
        """Runs `hop monitor` with these words."""
        places = ["--admin", str(self.directory), "--timeout", "30"]
        done = CliRunner().invoke(cli, ["monitor", *places, *words])
        assert done.exit_code == 0, done.output


@contextmanager
def why_cluster(world: ThreeSites, directory: Path, silence_us: int = 2_000_000) -> Iterator[WhyCluster]:
    """All daemons in one view, with admin channels that allow everything."""
    config = make_config(ring=RingTuning(token_loss_us=1_000_000), link=LinkTuning(silence_us=silence_us))
    sites = [
        replace(site, multicast=None, daemons=tuple([one for one in site.daemons if one.name in NAMES]))
        for site in config.sites
    ]
    admin = AdminTuning(socket=str(directory / "{name}.admin"))
    config = replace(config, sites=tuple(sites), admin=admin)

    def around(name: str) -> list[str]:
        return ["ip", "netns", "exec", world.lab.namespace(name)]

    module, arguments = "hopring.daemon.hopd", ("--dangerous", "--log-format", "text")
    with DaemonProcesses(config, directory, around, module, arguments) as daemons:
        daemons.start()
        cluster = WhyCluster(world, daemons, directory)
        cluster.whole()
        yield cluster
