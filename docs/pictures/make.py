"""Draws the pictures of docs/views.md, each from a run of the simulator.

python -m docs.pictures.make     rewrites all pictures
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from docs.pictures.stage import GROUP, MS, SECOND, Stage, four

from hopring.check.picture import PictureOptions, draw
from hopring.check.trace import Event
from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Story:
    """The history of a run and the options of its picture."""

    history: list[Event]
    wish: PictureOptions
    components: list[set[str]]  # Daemons that could reach each other at the end.


ALL = [{"eu1", "eu2", "us1", "us2"}]


def joins() -> Story:
    """Members join and leave, and two concurrent messages are delivered in one order."""
    stage = Stage()
    begin_us = stage.now_us
    for name, at in (("anna", "eu1"), ("bert", "eu2"), ("carl", "us1")):
        stage.join(name, at)
        stage.run(150 * MS)
    stage.send("anna")
    stage.run(1 * MS)
    stage.send("carl")
    stage.run(150 * MS)
    stage.leave("bert")
    stage.run(100 * MS)
    wish = PictureOptions(GROUP, begin_us, stage.now_us, "Joins, a leave, and two messages that cross")
    return Story(stage.history, wish, ALL)


def services() -> Story:
    """One message of each service, to show how long each one waits."""
    stage = four()
    begin_us = stage.now_us
    stage.run(10 * MS)
    for service in (UNRELIABLE, RELIABLE, FIFO, CAUSAL, AGREED, SAFE):
        stage.send("anna", service)
        stage.run(120 * MS)
    wish = PictureOptions(GROUP, begin_us, stage.now_us, "One message of each service, from anna")
    return Story(stage.history, wish, ALL)


def split() -> Story:
    """A Safe message that one side delivers before the signal and the other after it, then two more."""
    stage = four()
    begin_us = stage.now_us
    stage.run(20 * MS)
    stage.send("anna", SAFE)
    stage.run(40 * MS + 700)
    stage.split()
    stage.run(60 * MS)
    stage.send("bert", SAFE)
    stage.run(20 * MS)
    stage.send("carl", AGREED)
    stage.run(2 * SECOND)
    wish = PictureOptions(
        GROUP, begin_us, stage.now_us, "The network splits while a Safe message is on its way"
    )
    return Story(stage.history, wish, [{"eu1", "eu2"}, {"us1", "us2"}])


def merge() -> Story:
    """Two sides merge, and the first member of each side sends its state."""
    stage = four()
    stage.split()
    stage.run(3 * SECOND)
    begin_us = stage.now_us
    stage.run(50 * MS)
    stage.send("anna")
    stage.send("dora")
    stage.run(100 * MS)
    stage.heal()
    stage.settle()
    stage.send("anna")  # The first member of each side sends its state.
    stage.send("carl")
    stage.run(200 * MS)
    wish = PictureOptions(GROUP, begin_us, stage.now_us, "A merge: those who come from one view are together")
    return Story(stage.history, wish, ALL)


def crash() -> Story:
    """A daemon crashes and comes back as another process; the views of its group."""
    stage = four()
    begin_us = stage.now_us
    stage.run(20 * MS)
    stage.send("carl", SAFE)
    stage.run(100 * MS)
    stage.send("carl", SAFE)
    stage.run(45 * MS)
    stage.cluster.crash("us1")
    stage.run(3 * SECOND)
    stage.cluster.restart("us1")
    stage.settle()
    wish = PictureOptions(GROUP, begin_us, stage.now_us, "A daemon dies, and a client with it")
    return Story(stage.history, wish, ALL)


def daemons() -> Story:
    """The same crash, as views of daemons."""
    story = crash()
    return replace(story, wish=replace(story.wish, group=None, title="The same crash among the daemons"))


STORIES: dict[str, Callable[[], Story]] = {
    "joins": joins,
    "services": services,
    "split": split,
    "merge": merge,
    "crash": crash,
    "daemons": daemons,
}


def picture(name: str) -> str:
    """Renders the picture with this name."""
    story = STORIES[name]()
    return draw(story.history, story.wish)


def main() -> None:
    """Writes all pictures to their files."""
    for name in STORIES:
        (HERE / f"{name}.svg").write_text(picture(name))


if __name__ == "__main__":
    main()
