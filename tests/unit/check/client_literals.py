"""Handwritten histories of clients: those that keep a property, and those that break it."""

TWO = """
    a: view red 1.1 a | view red 1.2 ab | send 1 to red | got a:1
    b: view red 1.2 ab | got a:1
"""


HOLDS = [
    ("assumption 2.1", TWO),
    ("assumption 2.1", "a: disconnect | gone"),
    ("assumption 2.3", "a: send 1 | send 2"),
    ("assumption 2.3", "a: send 1\nb: send 1"),
    ("definition 2.7", "a: view red 1.1 ab | got b:1\nb: view red 1.1 ab | send 1 | got b:1"),
    ("2.1", "a: view red 1.1 a | signal red\nb: send 1 to #x#b | got b:1"),
    # Through the group in which it still is.
    (
        "2.1",
        "a: view red 1.1 a | view green 1.1 a | leave red | left red | send 1 to red,green | got a:1",
    ),
    ("2.2", TWO),
    ("2.3", "a: view red 1.1 a | leave red | left red | view red 1.2 a | view red 1.-1>2 a"),
    ("2.4", TWO),
    # Two sides of a split, and the merge.
    (
        "2.4",
        """
        a: view red 1.1 ab with a | signal red a | view red 2.1 a | view red 3.1 ab with a by network
        b: view red 1.1 ab with b | signal red b | view red 2.-1>3 b with b | view red 3.1 ab with b by network
        """,
    ),
    ("2.5", TWO),
    # Through two groups, once.
    ("2.5", "a: view red 1.1 a | view green 1.1 a | send 1 to red,green | got a:1"),
    ("2.6", TWO),
    # Anybody may send to a group.
    ("2.6", "a: view red 1.1 a | got b:1\nb: send 1 to red"),
    # An early message may come in the view before a join here, and behind it there.
    (
        "2.7",
        """
        a: view red 1.1 ab | send 1 reliable | got a:1 | view red 1.2 abc
        b: view red 1.1 ab | view red 1.2 abc | got a:1
        """,
    ),
    # It is ordered after the join, and c never gets it: nothing is promised until the next change of network.
    (
        "2.7",
        """
        a: view red 1.1 ac | send 1 fifo | got a:1 | view red 1.2 abc
        c: view red 1.1 ac | view red 1.2 abc
        """,
    ),
    # A session that leaves is owed nothing more.
    (
        "2.7",
        """
        a: view red 1.1 ab | send 1 fifo | got a:1 | signal red | view red 2.1 ab by network
        b: view red 1.1 ab | signal red | view red 2.1 ab by network | leave red | left red
        """,
    ),
    # Its own message, with self-discard.
    (
        "2.7",
        """
        a: view red 1.1 ab | send 1 discard | view red 1.2 abc
        b: view red 1.1 ab | got a:1 | view red 1.2 abc
        """,
    ),
    (
        "2.8",
        """
        a: view red 1.1 ab | send 1 | got a:1 | signal red | view red 2.1 ab by network
        b: view red 1.1 ab | got a:1 | signal red | view red 2.1 ab by network
        """,
    ),
    # A session leaves after the signal.
    ("2.8", "a: view red 1.1 abc | signal red ab | view red 2.1 a with a by network"),
    # After the signal, in views of two sides.
    (
        "2.18",
        """
        a: view red 1.1 ab | send 1 | signal red | view red 1.-1>2 ab | signal red | got a:1
        b: view red 1.1 ab | got a:1
        """,
    ),
    ("2.18", TWO),
    ("2.19", TWO),
    # A Reliable message may come in an earlier view than that of its send.
    ("2.19", "a: view red 1.1 ab | view red 1.2 ab | send 1 reliable\nb: view red 1.1 ab | got a:1"),
    # After a signal, the view of a sender that does not come along need not be known.
    ("2.19", "a: view red 1.1 ab | view red 1.2 ab | send 1\nb: view red 1.1 ab | signal red b | got a:1"),
    # A sender from outside the group is in no view.
    ("2.19", "a: view red 1.1 a | got b:1\nb: view green 5.1 b | send 1 to red"),
    # A session that has asked to leave sends from outside too, though it is still in its view.
    ("2.19", "a: view red 1.1 a | got b:1\nb: view red 5.1 b | leave red | send 1 to red | left red"),
    ("2.20", TWO),
    # The sides of a split assign different ids.
    ("2.20", "a: view red 1.1 ab | view red 1.-1>2 ac\nb: view red 1.1 ab | view red 1.-1>3 bc"),
    ("2.11", "a: view red 1.1 a | send 1 fifo | send 2 fifo | got a:1 | got a:2"),
    # A Reliable message may overtake.
    ("2.11", "a: view red 1.1 a | send 1 fifo | send 2 reliable | got a:2 | got a:1"),
    ("2.12", "a: view red 1.1 ab | got b:3 | send 4\nb: view red 1.1 ab | send 3 | got b:3 | got a:4"),
    ("2.12", TWO),
    ("2.13(2)", "a: view red 1.1 a | view green 1.1 a | got b:2 | got b:3\nb: send 2 to red | send 3 to green"),
    # Early messages need not come in order.
    ("2.13(2)", "a: view red 1.1 a | got b:3 | got b:2\nb: send 3 reliable | send 2"),
    ("2.13(3)", TWO),
    # Possibly in another view.
    (
        "2.13(3)",
        """
        a: view red 1.1 ab | send 1 reliable | send 2 | got a:1 | got a:2
        b: view red 1.0 b | got a:1 | view red 1.1 ab | got a:2
        """,
    ),
    # After the signal there may be gaps, if the sender does not come along.
    (
        "2.13(4)",
        """
        a: view red 1.1 abc | signal red | got c:2 | view red 2.1 ac with ac by network
        b: view red 1.1 abc | send 1 | got b:1
        c: view red 1.1 abc | send 2
        """,
    ),
    ("2.13(4)", TWO),
    (
        "2.14(2)",
        "a: view red 1.1 ab | send 1 safe | got a:1\nb: view red 1.1 ab | crash",
    ),
    # In a closing view: its daemon had the signal before the join.
    (
        "2.14(2)",
        """
        a: view red 1.1 a | view red 1.2 ab | send 1 safe | got a:1
        b: view red 1.-1>2 ab | signal red | got a:1
        """,
    ),
    (
        "2.14(3)",
        """
        a: view red 1.1 abc | send 1 safe | signal red | got a:1 | view red 2.1 ab by network
        b: view red 1.1 abc | signal red | got a:1 | view red 2.1 ab by network
        c: view red 1.1 abc | signal red | view red 3.1 c with c by network
        """,
    ),
    (
        "2.14(3)",
        "a: view red 1.1 ab | send 1 safe | signal red | got a:1 | view red 2.1 ab\nb: view red 1.1 ab | crash",
    ),
    ("one order", TWO),
    ("one order", "a: got c:1 | got c:2\nb: got c:1 | got c:2\nc: send 1 | send 2"),
    (
        "what a session asks for",
        "a: view red 1.1 a | leave red | left red | view red 1.2 a | disconnect | gone",
    ),
    # It withdraws its request.
    ("R5", TWO),
    # A daemon of three is lost: the others have it.
    (
        "R5",
        """
        a: daemons 1 abc | view red 1.1 abc | send 1 k 1 to red | got a:1 | crash
        b: daemons 1 abc | view red 1.1 abc | signal red | daemons 2 bc | got a:1 | view red 2.1 bc by network
        c: daemons 1 abc | view red 1.1 abc | signal red | daemons 2 bc | got a:1 | view red 2.1 bc by network
        """,
    ),
    # Two are lost, and it was to survive one.
    (
        "R5",
        """
        a: daemons 1 abc | view red 1.1 abc | send 1 k 1 to red | got a:1 | crash
        b: daemons 1 abc | view red 1.1 abc | crash
        c: daemons 1 abc | view red 1.1 abc | signal red | daemons 2 c | view red 2.1 c by network
        """,
    ),
    # The majority has it; the minority, whose view is not primary, is promised nothing.
    (
        "R6(4)",
        """
        a: daemons 1 abc primary | view red 1.1 abc | send 1 k 255 to red | got a:1 | crash
        b: daemons 1 abc primary | view red 1.1 abc | signal red | daemons 2 b | view red 2.1 b by network
        c: daemons 1 abc primary | view red 1.1 abc | signal red | daemons 3 c | view red 3.1 c by network
        """,
    ),
    (
        "R6(4)",
        """
        a: daemons 1 abc primary | view red 1.1 abc | send 1 k 255 to red | got a:1 | crash
        b: daemons 1 abc primary | view red 1.1 abc | signal red | got a:1 | daemons 2 bc primary
        c: daemons 1 abc primary | view red 1.1 abc | signal red | got a:1 | daemons 2 bc primary
        """,
    ),
    # Who leaves or ends is promised nothing.
    (
        "R5",
        """
        a: daemons 1 abc | view red 1.1 abc | send 1 k 1 to red | got a:1 | crash
        b: daemons 1 abc | view red 1.1 abc | daemons 2 bc | leave red | left red
        c: daemons 1 abc | view red 1.1 abc | daemons 2 bc | disconnect | gone
        """,
    ),
    ("what a session asks for", "a: join red | disconnect | gone\nb: join red | crash"),
    ("2.15", TWO),
    ("2.15", "a: view red 1.1 a | send 1 | leave red | left red"),
    ("2.15", "a: view red 1.1 a | send 1 discard | send 2 unreliable\nb: view red 1.1 b | send 1 | crash"),
    ("2.17", TWO),
    ("2.17", "a: view red 1.1 a | send 1 discard"),
]


BREAKS = [
    ("assumption 2.1", "a: bare | send 1", "a/1 has no connect as its first event"),
    ("assumption 2.1", "a: disconnect | join red", "a/1 had disconnected, yet has a join at 2 us"),
    ("assumption 2.1", "a: disconnect | gone | got b:1", "a/1 was gone, yet has a deliver at 3 us"),
    ("assumption 2.1", "a: left red", "a/1 left red at 1 us and was not in it"),
    ("assumption 2.3", "a: send 1 | send 1", "a/1 sent a/1:1 at 2 us, and a/1 did at 1 us"),
    (
        "definition 2.7",
        "a: view red 1.1 ab | got b:1 lts 7\nb: view red 1.1 ab | send 1 | got b:1",
        "b/1 delivered b/1:1 at 3 us with stamp lts 1 of site 1 in view 1, others with lts 7 of site 1 in"
        " view 1",
    ),
    ("2.1", "a: signal red", "a/1 got a transitional signal of red at 1 us and was not in it"),
    (
        "2.1",
        "a: view green 1.1 a | got b:1\nb: send 1 to red",
        "a/1 delivered b/1:1 at 2 us, which was for red, and was in none of these",
    ),
    ("2.2", "a: view red 1.1 b", "a/1 installed red 1.1 at 1 us, which has only {b/1}"),
    ("2.3", "a: view red 1.2 a | view red 1.1 a", "a/1 installed red 1.1 at 2 us after red 1.2 at 1 us"),
    # A group that comes back continues with higher ids.
    (
        "2.3",
        "a: view red 1.1 a | leave red | left red | view red 1.1 a",
        "a/1 installed red 1.1 at 4 us after red 1.1 at 1 us",
    ),
    (
        "2.4",
        "a: view red 1.1 ab with ab",
        "(1) a/1 installed red 1.1 at 1 us with the transitional set {a/1 b/1}, but it is its first view",
    ),
    # Losses on both sides, and no view showed that they had parted.
    (
        "2.4",
        """
        a: view red 1.1 ab | signal red a | view red 3.1 ab with a by network
        b: view red 1.1 ab | signal red b | view red 3.1 ab with b by network
        """,
        "(3) a/1 came to red 3.1 from red 1.1, b/1 came to red 3.1 from red 1.1, and a/1 does not count b/1 as"
        " coming along",
    ),
    (
        "2.5",
        "a: view red 1.1 a | send 1 | got a:1 | got a:1",
        "a/1 delivered a/1:1 at 4 us, and before that at 3 us",
    ),
    ("2.6", "a: view red 1.1 a | got b:1", "a/1 delivered b/1:1 at 2 us, which nobody sent"),
    (
        "2.6",
        "a: view red 1.1 a | got b:1 to red,green\nb: send 1 to red",
        "a/1 delivered b/1:1 at 2 us for red green, but it was sent to red",
    ),
    (
        "2.7",
        """
        a: view red 1.1 ab | send 1 | got a:1 | view red 1.2 abc
        b: view red 1.1 ab | view red 1.2 abc | got a:1
        """,
        "a/1 and b/1 moved together from red 1.1 to red 1.2; a/1 delivered a/1:1 at 3 us, b/1 did not",
    ),
    # They were together from before the join to the change of network.
    (
        "2.7",
        """
        a: view red 1.1 ab | send 1 fifo | got a:1 | view red 1.2 abc | signal red | view red 2.1 ab by network
        b: view red 1.1 ab | view red 1.2 abc | signal red | view red 2.1 ab by network
        """,
        "a/1 and b/1 moved together from red 1.2 to red 2.1; a/1 delivered a/1:1 at 3 us, b/1 did not at all",
    ),
    (
        "2.8",
        "a: view red 1.1 ab | signal red a | signal red a | view red 2.1 a",
        "(1) a/1 in red 1.1 got a signal at 2 us and another at 3 us",
    ),
    (
        "2.8",
        "a: view red 1.1 ab | signal red a | view red 2.1 ab",
        "(1) a/1 in red 1.1 got a signal for {a/1}, but red 2.1 came with {a/1 b/1}",
    ),
    (
        "2.8",
        """
        a: view red 1.1 ab | signal red | view red 2.1 ab by network
        b: view red 1.1 ab | view red 2.1 ab by network
        """,
        "(2) a/1 and b/1 moved together from red 1.1 to red 2.1; a/1 got a signal and b/1 none",
    ),
    (
        "2.8",
        """
        a: view red 1.1 ab | send 1 | got a:1 | signal red | view red 2.1 ab by network
        b: view red 1.1 ab | signal red | got a:1 | view red 2.1 ab by network
        """,
        "(2) a/1 and b/1 moved together from red 1.1 to red 2.1; a/1 delivered a/1:1 at 3 us, b/1 did not"
        " before the signal",
    ),
    (
        "2.18",
        "a: view red 1.1 ab | send 1 | got a:1\nb: view red 1.1 ab | view red 1.2 ab | got a:1",
        "a/1 delivered a/1:1 at 3 us in red 1.1, b/1 in red 1.2",
    ),
    (
        "2.19",
        "a: view red 1.1 ab | view red 1.2 ab | send 1\nb: view red 1.1 ab | got a:1",
        "b/1 delivered a/1:1 at 2 us in red 1.1, but it was sent in red 1.2",
    ),
    (
        "2.19",
        "a: view red 1.1 ab | view red 1.2 ab | leave red | join red | send 1\nb: view red 1.1 ab | got a:1",
        "b/1 delivered a/1:1 at 2 us in red 1.1, but it was sent in red 1.2",
    ),
    (
        "2.19",
        "a: view red 1.1 ab | view red 1.2 ab | send 1\nb: view red 1.1 ab | signal red ab | got a:1",
        "b/1 delivered a/1:1 at 3 us in red 1.1, but it was sent in red 1.2",
    ),
    (
        "2.20",
        "a: view red 1.-1>2 ab\nb: view red 1.-1>2 b",
        "a/1 installed red 1.-1>2 at 1 us of {a/1 b/1}, b/1 installed red 1.-1>2 at 1 us of {b/1}",
    ),
    (
        "2.11",
        "a: view red 1.1 a | view green 1.1 a | got b:2 | got b:1\nb: send 1 reliable | send 2 fifo to green",
        "a/1 delivered b/1:1 at 4 us after b/1:2 at 3 us, which was sent later",
    ),
    (
        "2.12",
        "a: view red 1.1 ab | got b:3 | send 2\nb: view red 1.1 ab | send 3 | got b:3 | got a:2",
        "a/1 sent a/1:2 at 3 us after it had delivered b/1:3 at 2 us, but the stamp lts 2 of site 0 in view 1"
        " is not above lts 3 of site 1 in view 1",
    ),
    (
        "2.13(2)",
        "a: view red 1.1 a | view green 1.1 a | got b:3 | got b:2\nb: send 2 to red | send 3 to green",
        "a/1 delivered b/1:2 at 4 us after b/1:3 at 3 us, which has a higher stamp",
    ),
    (
        "2.13(3)",
        """
        a: view red 1.1 ab | send 1 reliable | send 2 | got a:1 | got a:2
        b: view red 1.1 ab | got a:2
        """,
        "b/1 delivered a/1:2 at 2 us in red 1.1 and never a/1:1, which has a lower stamp and which a/1"
        " delivered there",
    ),
    (
        "2.13(4)",
        """
        a: view red 1.1 abc | signal red | got c:2 | view red 2.1 ab with ab by network
        b: view red 1.1 abc | send 1 | got b:1
        c: view red 1.1 abc | send 2
        """,
        "a/1 delivered c/1:2 at 3 us in red 1.1 and never b/1:1, which has a lower stamp and which b/1"
        " delivered there",
    ),
    (
        "2.14(2)",
        "a: view red 1.1 ab | send 1 safe | got a:1\nb: view red 1.1 ab | view red 1.2 b with b | crash",
        "a/1 delivered a/1:1 at 3 us in red 1.1, but b/1 went on without that message",
    ),
    (
        "2.14(3)",
        """
        a: view red 1.1 ab | send 1 safe | signal red | got a:1 | view red 2.1 ab by network
        b: view red 1.1 ab | signal red | view red 3.1 b with b by network
        """,
        "a/1 delivered a/1:1 at 4 us in red 1.1, but b/1 went on without that message",
    ),
    (
        "one order",
        "a: got c:1 lts 2 | got c:2\nb: got c:2 | got c:1\nc: send 1 | send 2",
        "a/1 delivered c/1:1 before c/1:2, b/1 delivered c/1:2 before c/1:1",
    ),
    (
        "R5",
        """
        a: daemons 1 abc | view red 1.1 abc | send 1 k 1 to red | got a:1 | crash
        b: daemons 1 abc | view red 1.1 abc | signal red | daemons 2 bc | got a:1 | view red 2.1 bc by network
        c: daemons 1 abc | view red 1.1 abc | signal red | daemons 2 bc | view red 2.1 bc by network
        """,
        "a/1 delivered a/1:1 at 4 us in red 1.1, and c/1 went on without it",
    ),
    (
        "R6(4)",
        """
        a: daemons 1 abc primary | view red 1.1 abc | send 1 k 255 to red | got a:1 | crash
        b: daemons 1 abc primary | view red 1.1 abc | signal red | got a:1 | daemons 2 bc primary
        c: daemons 1 abc primary | view red 1.1 abc | signal red | daemons 2 bc primary
        """,
        "a/1 delivered a/1:1 at 4 us in red 1.1, and c/1 went on without it",
    ),
    ("what a session asks for", "a: disconnect", "a/1 disconnected, and never ended"),
    (
        "what a session asks for",
        "a: join red | view green 1.1 a",
        "a/1 asked 1 times to join red, and came to be in it 0 times",
    ),
    (
        "what a session asks for",
        "a: view red 1.1 a | leave red",
        "a/1 asked 1 times to leave red, and left it 0 times",
    ),
    ("2.15", "a: join red | send 1", "a/1 sent a/1:1 at 2 us and never delivered it"),
    ("2.15", "a: send 1 to #x#a", "a/1 sent a/1:1 at 1 us and never delivered it"),
    (
        "2.17",
        "a: view red 1.1 ab | send 1 | got a:1\nb: view red 1.1 ab",
        "a/1:1 is of red 1.1, a/1 stayed there; b/1 never delivered it",
    ),
    (
        "2.17",
        "a: view red 1.1 ab | send 1 discard\nb: view red 1.1 ab",
        "a/1 sent a/1:1 at 2 us in red 1.1 and stayed there, but nobody ever delivered it",
    ),
]
