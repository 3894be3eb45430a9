"""Follows a group and reports what an application has to react to: splits, merges, gaps, reconnections.

    python examples/watcher.py trades

A program that keeps a copy of shared state needs these four cases. After a merge or a gap it has to fetch the
state from another member; after a split it knows who no longer receives its updates.
"""

from argparse import ArgumentParser

from hopring import Event, Gap, Message, Reconnected, Transition, View, sync


class Watcher:
    """The last view of the group, and the number of messages since."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.messages = 0

    def describe(self, event: Event) -> str | None:
        """One line about an event; None for a message, which is only counted."""
        match event:
            case Message():
                self.messages += 1
                return None
            case View():
                return self.describe_view(event)
            case Transition():
                return f"closing: {_names(event)} are certain to receive what follows"
            case Gap():
                return f"gap: {event.messages} messages are missing, because this program was too slow"
            case Reconnected():
                away = event.gap.back_at_seconds - event.gap.lost_at_seconds
                return f"reconnected: messages of {away:.1f} s are missing ({event.gap.reason})"
        return None

    def describe_view(self, view: View) -> str:
        """Describes the change since the last view: members lost and regained by a change of network."""
        before = set() if self.view is None else set(self.view.members)
        lost = sorted(one.private_group for one in before - set(view.members))
        # Members that did not come from our view have received other messages than we have.
        met = sorted(one.private_group for one in set(view.members) - set(view.together))
        line = f"view: {_names(view)} after {self.messages} messages ({view.cause})"
        self.view, self.messages = view, 0
        if view.cause == "network" and lost:
            line += f"; split from {' '.join(lost)}"
        if view.cause == "network" and met:
            line += f"; merged with {' '.join(met)}, their messages of the meantime are missing here"
        return line


def _names(event: View | Transition) -> str:
    return " ".join(one.private_group for one in event.members)


def main() -> None:
    """Prints the changes of a group until it is interrupted."""
    parser = ArgumentParser(description="Report what happens to a group.")
    parser.add_argument("group")
    parser.add_argument("--at", default="hop://localhost:4893", metavar="URL", help="a daemon")
    options = parser.parse_args()
    watcher = Watcher()
    # With slow="drop" the daemon skips messages for a slow reader, and says how many.
    with sync.connect(options.at, name="watcher", slow="drop") as session, session.join(options.group):
        for event in session:
            line = watcher.describe(event)
            if line is not None:
                print(line, flush=True)


if __name__ == "__main__":
    main()
