"""A simulated cluster of two sites with clients of one group, for the runs that are drawn."""

from hopring.check.trace import Event, ProcessName
from hopring.config.builder import local_config
from hopring.groups.groups import GroupsState
from hopring.ids import GroupName
from hopring.services import Service
from hopring.sim.client_cluster import SimClientCluster
from hopring.sim.path import Quality
from hopring.wire.bundle import BundleKey

GROUP = GroupName("trades")
EU, US = ("eu1", "eu2"), ("us1", "us2")
MS = 1_000
SECOND = 1_000 * MS
LOCAL_US, FAR_US = 500, 20 * MS
SETTLE_SECONDS_MAX = 20


class Stage:
    """Daemons eu1, eu2, us1 and us2; half a millisecond inside a site, 20 between the sites."""

    def __init__(self, seed: int = 1) -> None:
        self.cluster = SimClientCluster(
            local_config({"eu": 2, "us": 2}), seed, quality=Quality(delay_us=LOCAL_US)
        )
        for near in EU:
            for far in US:
                self.cluster.network.shape_both(near, far, delay_us=FAR_US)
        self.sessions: dict[str, ProcessName] = {}
        self.cluster.start()
        self.settle()

    @property
    def history(self) -> list[Event]:
        """All recorded events of the run."""
        return self.cluster.history

    @property
    def now_us(self) -> int:
        """The virtual time, which begins at 0."""
        return self.cluster.engine.now_us

    def run(self, duration_us: int) -> None:
        """Runs the cluster for this duration of virtual time."""
        self.cluster.run_for(duration_us)

    def settle(self) -> None:
        """Runs until all daemons that can reach each other share a view and their groups are complete."""
        for _ in range(SETTLE_SECONDS_MAX):
            self.run(SECOND)
            states = {self.cluster.client_host(name).groups.state for name in self.cluster.hosts}
            if self.cluster.settled() and states == {GroupsState.GOP}:
                return
        raise AssertionError("the cluster does not settle")

    def join(self, name: str, at: str) -> None:
        """A client connects to a daemon and asks to join."""
        host = self.cluster.client_host(at)
        session = host.connect(name)
        assert session is not None, "the name is free"
        host.join(session, GROUP)
        self.sessions[name] = host.process._replace(session=session)

    def leave(self, name: str) -> None:
        """The client asks to leave the group."""
        client = self.sessions[name]
        self.cluster.client_host(client.daemon).leave(client.session, GROUP)

    def send(self, name: str, service: Service = Service.AGREED) -> None:
        """The client sends a message to the group."""
        client = self.sessions[name]
        host = self.cluster.client_host(client.daemon)
        host.send(BundleKey(host.me.daemon, client.session, service, (GROUP,)), (10,))

    def split(self) -> None:
        """Cuts every path between the two sites."""
        self.cluster.network.partition(EU, US)

    def heal(self) -> None:
        """Restores the paths between the two sites."""
        self.cluster.network.heal()


def four() -> Stage:
    """Four members, one at each daemon."""
    stage = Stage()
    for name, at in zip(("anna", "bert", "carl", "dora"), EU + US, strict=True):
        stage.join(name, at)
        stage.run(200 * MS)
    return stage
