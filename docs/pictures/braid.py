"""Draws the braid of docs/pipeline.md from a run of the simulator, with the code of the report.

python -m docs.pictures.braid     rewrites the picture
"""

from pathlib import Path

from docs.pictures.stage import SECOND, Stage

from hopring.check import trace
from hopring.check.picture.svg import element
from hopring.check.trace_row import view_text
from hopring.spark.report.braid_chart import draw_braid
from hopring.spark.report.gold import StayRow
from hopring.spark.report.html import sheet, site_classes
from hopring.spark.report.page import HERE as REPORT

FILE = Path(__file__).parent / "braid.svg"
WIDTH_PX = 860.0


def run() -> tuple[list[trace.Event], int]:
    """Runs a split, a merge, a crash and a restart; returns the history and the time at its end."""
    stage = Stage()
    stage.run(3 * SECOND)
    stage.split()
    stage.run(7 * SECOND)
    stage.heal()
    stage.settle()
    stage.run(4 * SECOND)
    stage.cluster.crash("us1")
    stage.run(5 * SECOND)
    stage.cluster.restart("us1")
    stage.settle()
    stage.run(3 * SECOND)
    return stage.history, stage.now_us


def stays(history: list[trace.Event]) -> list[StayRow]:
    """Stays of daemons in views, as the pipeline's table has them."""
    found: list[StayRow] = []
    for process in sorted({event.process for event in history}):
        own = [event for event in history if event.process == process]
        views = [event for event in own if isinstance(event, trace.ViewInstalled)]
        signals = {event.view: event.at_us for event in own if isinstance(event, trace.Signalled)}
        ends = [event.at_us for event in own if isinstance(event, trace.ViewInstalled | trace.Crash)]
        for number, one in enumerate(views):
            end_us = ends[number + 1] if number + 1 < len(ends) else None
            members, together = ([who.daemon for who in some] for some in (one.members, one.together))
            name, signal_us = view_text(one.view), signals.get(one.view)
            found.append(
                StayRow(
                    process.daemon,
                    one.at_us,
                    name,
                    end_us,
                    tuple(members),
                    tuple(together),
                    one.cause,
                    signal_us,
                )
            )
    return found


def picture() -> str:
    """The braid as a standalone SVG file with the colours of the report."""
    history, end_us = run()
    found = stays(history)
    daemons = sorted({stay.daemon for stay in found})
    classes = site_classes(daemon[:2] for daemon in daemons)
    colours = {daemon: classes[daemon[:2]] for daemon in daemons}
    window = min(stay.begin_us for stay in found), end_us
    label = "A braid of four daemons: a split, a merge, the end of one of them and its return"
    drawn = draw_braid(found, window, WIDTH_PX, colours, label)
    style = (REPORT / "page.css").read_text().partition("/* Pictures. */")[2].partition("/* Words")[0]
    paper = element("rect", {"width": "100%", "height": "100%", "style": "fill: var(--paper)"})
    head = f'<svg xmlns="http://www.w3.org/2000/svg"{drawn.removeprefix("<svg").partition(">")[0]}>'
    return f"{head}\n<style>\n{sheet()}{style}</style>\n{paper}\n{drawn.partition('>')[2]}\n"


def main() -> None:
    """Writes the picture to its file."""
    FILE.write_text(picture())


if __name__ == "__main__":
    main()
