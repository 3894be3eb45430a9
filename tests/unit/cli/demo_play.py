"""A demonstration on a fake cluster, and the text that it prints."""

import io
from dataclasses import replace

from rich.console import Console, RenderableType

from hopring.check import trace
from hopring.check.properties.property import holds
from hopring.demo.figures import (
    ClientSummary,
    DeliveryReach,
    DemoFlow,
    DemoLatency,
    DemoResult,
    JudgedHistory,
    ViewChangeTimes,
)
from hopring.demo.scenario import (
    AGAIN,
    APART,
    CALM,
    MERGING,
    PHASES,
    SPLITTING,
    TOGETHER,
    sides_in,
)
from hopring.demo.screen import DemoScreen
from hopring.services import AGREED, SAFE, Service


def client(daemon: str) -> trace.ProcessName:
    return trace.ProcessName(daemon, 1, 1)


def name(daemon: str, number: int) -> trace.MessageId:
    return trace.MessageId(daemon, 1, number, 1)


def sent(daemon: str, number: int, at_us: int, service: Service = AGREED) -> trace.ClientSent:
    return trace.ClientSent(client(daemon), at_us, ("trades",), name(daemon, number), service)


GOOD = JudgedHistory("clients, EVS-C", 12340, [holds("one"), holds("other")])


FACTS = DemoResult(
    ok=True,
    version="1",
    seconds=36.2,
    flows=[DemoFlow(phase, sites, 5.0, 330, 1320, 67.0, 268.0) for phase in CALM for sites in sides_in(phase)],
    latencies=[
        DemoLatency(service, phase, sites, 200, 7.5, 6.9, 19.7)
        for service in ("agreed", "safe")
        for phase in CALM
        for sites in sides_in(phase)
    ],
    changes=[
        ViewChangeTimes(SPLITTING, {"eu": 2.34, "us ap": 3.12}, {"eu": False, "us ap": True}),
        ViewChangeTimes(MERGING, {"eu us ap": 1.7}, {"eu us ap": True}),
    ],
    reached=[
        DeliveryReach(
            phase, sites, 168, {"eu": 166, "us": 0, "ap": 0}, {"eu": 2 * (phase == APART), "us": 0, "ap": 0}
        )
        for phase in PHASES
        for sites in sides_in(phase)
    ],
    clients=[ClientSummary("eu1", 358, 963, 478, 16, 2, ["eu1", "eu2"])],
    judged=[GOOD, replace(GOOD, name="daemons, EVS")],
    trace="out/demo-1/trace.jsonl",
)


def text_of(*parts: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100, soft_wrap=True)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Shown:
    daemon, sent = "eu1", 7

    def __init__(self) -> None:
        self.got = {AGREED: 3, SAFE: 4}

    def members(self, _group: str) -> list[str]:
        return ["eu1", "us1"]

    def primary(self, _group: str) -> bool:
        return True


def played(console: Console, quiet: bool = False) -> str:
    assert isinstance(console.file, io.StringIO)
    with DemoScreen(quiet, console) as screen:
        screen.phase(TOGETHER, calm=True)
        screen.say("6 clients are in one view of each group, and send")
        screen.show_clients([Shown()])
        screen.cut("eu | us ap")
        screen.signal("eu1", ["eu1", "eu2"])
        screen.view("eu1", ["eu1", "eu2"], ["eu1", "eu2"], primary=False)
        screen.view("us1", ["us1"], ["us1"], primary=True)
        screen.phase(APART, calm=True)
        screen.heal()
        screen.view("eu1", ["eu1", "eu2", "us1"], ["eu1", "eu2"], primary=True)
        screen.phase(AGAIN, calm=True)
    return console.file.getvalue()
