"""Histories of peers by hand, by the property that each is about: right ones and wrong ones."""

PAIR = "a asks | b asks | a list 1 1 a join a | a orders 1 2 b list ab | b hears 1 2 | b list 1 2 ab join b"
"""A ring that b has joined."""

RIGHT = {
    "R1": [
        f"{PAIR} | a sends a:1 | b body a:1 | b orders 1 3 a: a:1 | b shows a:1 1 4 | a hears 1 3"
        "| a shows a:1 1 4",
        # Both sides of a split go on counting, in epochs of their own.
        "a list 2 5 a failure | b list 3 5 b failure | a shows a:1 2 6 | b shows b:1 3 6",
    ],
    "R2": [
        "a list 1 1 ab | a shows b:1 1 3 | a shows b:2 1 4 | a list 2 5 a failure | a shows a:1 2 6",
        # Early messages have no place to compare.
        "a list 1 1 ab | b sends b:1 fifo | a shows b:1 1 9 | b sends b:2 | a shows b:2 1 3",
        # Numbers begin anywhere, and anew behind a join.
        "a orders 1 1 a list ab | a orders 1 2 b: a:7 | b orders 1 4 a list a | a orders 1 5 a: a:8"
        "| a orders 1 7 b list ab | b orders 1 8 a: b:4 a:9",
    ],
    "R3": [
        f"{PAIR} | a sends a:1 | b body a:1 | b orders 1 3 a: a:1 | a hears 1 3 | a orders 1 5 b",
        f"{PAIR} | a sends a:1 | b body a:1 | a orders 1 3 b: a:1 | b hears 1 3 | b confirms 1 3",
        # What was before its first list is not its own.
        "a list 1 1 a | a sends a:1 | a orders 1 2 a: a:1 | a orders 1 4 b list ab | b list 1 4 ab"
        "| b hears 1 4"
        "| b orders 1 5 a",
        # Nor is what was before it came back.
        "a list 1 1 ab | b list 1 1 ab | b ends removed | a sends a:1 | a orders 1 2 a: a:1"
        "| a orders 1 4 b list ab' | b list 1 4 ab' | b hears 1 4 | b orders 1 5 a",
    ],
    "R4": [
        f"{PAIR} | b orders 1 3 a: a:1 b:1 | a orders 1 6 b | b orders 1 7 a",
        # The next epoch begins with whoever recovered the ring.
        "a orders 1 3 b | b orders 2 4 b list ab | b orders 2 5 a",
    ],
    "R5": [
        "a list 1 1 abc | b list 1 1 abc | a sends a:1 k 1 | a shows a:1 1 3 | b shows a:1 1 3"
        "| a ends crash | b list 2 5 bc failure",
        # Two are lost, and it was to survive one.
        "a list 1 1 abc | c list 1 1 abc | a sends a:1 k 1 | a shows a:1 1 3 | a ends crash"
        "| c list 2 5 c failure",
        # Behind the signal nothing is promised to others.
        "a list 1 1 abc | b list 1 1 abc | a sends a:1 k 1 | a signal a | a shows a:1 1 3"
        "| b list 2 5 bc failure",
    ],
    "R6": [
        "a list 1 1 abc primary | a list 2 5 ab failure primary | c list 3 5 c failure",
        # A leave takes half of the members of a small ring.
        "a list 1 1 ab primary | b list 1 4 b leave a primary",
        "a list 1 1 abc primary | b list 1 1 abc primary | a sends a:1 k 255 | a shows a:1 1 3"
        "| b shows a:1 1 3"
        "| a ends crash | b list 2 5 bc failure primary",
        # The side without a primary list passes it over.
        "a list 1 1 abc primary | c list 1 1 abc primary | a sends a:1 k 255 | a shows a:1 1 3"
        "| c shows a:1 1 3 withheld | c list 3 5 c failure",
    ],
    "R7": [
        "a list 1 1 abc minimum 254 | a suspended | a list 2 5 ab failure minimum 254 | a shows a:1 2 6",
        "a list 1 1 abc minimum 2 | a list 2 5 ab failure minimum 2",
        # The next list brings what others had delivered before it.
        "a list 1 1 abc minimum 2 | a suspended | a shows b:1 1 3 | a signal ab"
        "| a list 2 5 ab failure minimum 2",
        # Early messages are delivered in a suspended ring, too; a leave may go below the minimum.
        "a list 1 1 ab minimum 2 | a suspended | b sends b:1 fifo | a shows b:1 1 0",
        "a list 1 1 ab minimum 2 | a list 1 2 a leave b minimum 2",
        # A leave that is in the order counts, though the recovery does not show its list.
        "a list 1 1 abc minimum 255 | b orders 1 3 a list ab | a list 2 5 ab failure minimum 255",
        "a asks | b asks | c asks minimum 3 | a list 1 1 abc minimum 3 | b orders 1 3 a list ab"
        "| a list 2 5 ab failure",
    ],
    "R8": [
        "a list 1 1 ab | a list 2 5 a failure | a list 2 6 ab' join b'",
        # Who has been removed sees others that come back as well.
        "a list 1 1 ab | a list 2 5 a failure | a ends removed | a list 3 9 ba' join a'",
    ],
    "R9": [
        f"{PAIR} | b orders 1 3 a | b shows a:1 1 4",
        # The founder joins behind nobody.
        "a orders 1 1 a list a | a list 1 1 a join a",
    ],
    "R10": [
        f"{PAIR} | a sends a:1 | a orders 1 3 b: a:1 | b hears 1 3 | b body a:1 | a list 1 2 ab"
        "| a keeps 1 from 5 needs 5",
        # b is not in the present list.
        "a list 1 1 ab | a sends a:1 | a orders 1 2 b: a:1 | a list 1 4 a leave b | a keeps 1 from 4 needs 4",
    ],
    "R11": ["a list 1 1 ab | a keeps 1 from 5 needs 5 waiting a:3 queued a:2,b:1"],
    "R12": [
        "a gets L 1 4 fence 7 | b gets L 1 9 fence 8 | a gets M 1 4 fence 7",
        "a gets L 1 4 fence 7 | b gets L 2 3 fence 1 outside partial",
    ],
    "R13": [
        "a told c:1 handler 1 owner a answers | b told c:1 handler 1 owner a",
        "a told c:1 handler 1 owner a answers | a told c:1 handler 1 owner a answers again",
        "a told c:1 handler 1",
    ],
    "R14": [
        "a stranger x 4 | a acknowledges x 4 | a acknowledges x 4",
        "a stranger x 4 | a stranger x 4 repeat | b stranger x 4",
        # In another ring it is another member.
        "a stranger x 4 | a ends removed | a stranger x 4 | a acknowledges x 4",
    ],
    "R15": [
        f"{PAIR} | a list 1 2 ab join b | a rests passes 3 of 3 | b rests passes 2 of 3",
        f"{PAIR} | a list 1 2 ab join b | a rests | b ends leave | b rests apart",
    ],
    "R16": [
        "a window 5 of 5 | a repeats P 2 of 2",
        "a asks minimum 2 | b asks minimum 254 | a list 1 2 ab minimum 254 | a ends crash"
        "| b list 2 3 b failure minimum 254",
    ],
    "R17": [
        "a orders 1 1 b list abc | b orders 1 2 c | c orders 1 3 a | a orders 1 4 b | b orders 1 5 c",
        # Who recovered the ring orders twice; a leaver orders once more.
        "a orders 2 1 a list ab | a orders 2 2 a | a orders 2 3 b | b orders 2 4 a",
        # A list with other members begins the rotation anew; the same ones do not.
        "a orders 1 1 b list abcd | b orders 1 2 c | c orders 1 3 a list abd | a orders 1 4 b | b orders 1 5 d",
        # A ring that is broken visits nobody.
        "a orders 1 1 b list abc | b orders 1 2 a | a orders 1 3 b",
    ],
}

WRONG = {
    "R1": [
        "a list 1 1 ab | a shows a:1 1 3 | b shows b:1 1 3",
        "a orders 1 3 b: a:1 | b shows b:1 1 4",
        "a orders 1 3 b | b orders 1 3 a",
        "a list 1 1 ab | b list 1 1 b",
        "a orders 1 3 b: a:1 b:1 | c orders 1 5 a list abc",
    ],
    "R2": [
        "a list 1 1 ab | a shows b:1 1 4 | a shows b:2 1 3",
        "a list 1 1 ab | a shows b:1 1 3 | a shows b:2 1 3",
        "a list 1 5 ab | a shows b:1 1 3",
        "a orders 1 2 b: a:1 a:3",
        "a orders 1 2 b: a:2 | b orders 1 4 a: a:1",
        "a orders 1 2 b: a:1 | b orders 1 4 a: a:1",
    ],
    "R3": [
        f"{PAIR} | a sends a:1 | a orders 1 3 b: a:1 | b hears 1 3 | b orders 1 5 a",
        f"{PAIR} | a sends a:1 | a orders 1 3 b: a:1 | b hears 1 3 | b confirms 1 3",
        f"{PAIR} | a sends a:1 | b body a:1 | a orders 1 3 b: a:1 | b orders 1 5 a",
    ],
    "R4": [
        "a orders 1 3 b | c orders 1 4 a",
        "a orders 1 3 b: a:1 | b orders 1 4 a",
        "a orders 1 3 b | b orders 1 6 a",
        "a orders 1 3 b | c orders 1 3 b",
    ],
    "R5": [
        "a list 1 1 abc | b list 1 1 abc | a sends a:1 k 1 | a shows a:1 1 3 | a ends crash"
        "| b list 2 5 bc failure",
        "a list 1 1 abc | c list 1 1 abc | a sends a:1 k 2 | a shows a:1 1 3 | a ends crash"
        "| c list 2 5 c failure",
        # It is delivered only later.
        "a list 1 1 ab | b list 1 1 ab | a sends a:1 k 1 | a shows a:1 1 3 | a ends crash"
        "| b list 2 5 b failure"
        "| b shows a:1 2 6",
    ],
    "R6": [
        "a list 1 1 abcd primary | a list 2 5 ab failure primary | c list 3 5 cd failure primary",
        "a list 1 1 ab primary | c list 2 5 c failure primary",
        "a list 1 1 abc primary | b list 1 1 abc primary | a sends a:1 k 255 | a shows a:1 1 3"
        "| a ends crash | b list 2 5 bc failure primary",
        "a list 1 1 abc primary | b list 1 1 abc primary | a sends a:1 k 255 | a shows a:1 1 3"
        "| b shows a:1 1 3 withheld | b list 2 5 bc failure primary",
        # The primary comes only after a list that is none.
        "a list 1 1 abc primary | b list 1 1 abc primary | a sends a:1 k 255 | a shows a:1 1 3"
        "| b list 2 5 b failure | b list 3 6 bc primary",
        "a list 1 1 ab | b list 1 1 ab | a sends a:1 k 255 | b sends b:1 k 255 | a shows a:1 1 3"
        "| a shows b:1 1 4"
        "| b shows b:1 2 3 | b shows a:1 2 4",
    ],
    "R7": [
        "a list 1 1 ab | a suspended | a shows b:1 1 3",
        "a list 1 1 ab | a suspended | a orders 1 3 b: a:1",
        "a list 1 1 ab | a suspended | a shows b:1 1 3 | a body b:2 | a list 2 5 a failure",
        "a list 1 1 abcd minimum 254 | a list 2 5 ab failure minimum 254",
        "a list 1 1 abc minimum 2 | a list 2 5 a failure minimum 2",
        "a list 1 1 abc minimum 255 | a list 2 5 ab failure minimum 255",
        # The leave is above the place of the recovered list, or another one is lacking besides.
        "a list 1 1 abc minimum 255 | b orders 1 7 a list ab | a list 2 5 ab failure minimum 255",
        "a list 1 1 abc minimum 255 | b orders 1 3 a list ab | a list 2 5 a failure minimum 255",
    ],
    "R8": [
        "a list 1 1 ab | a list 2 5 a failure | a list 2 6 ab join b",
        "a list 1 1 abc | a list 1 2 ac leave b | a list 2 5 a failure | a list 2 6 ab failure",
    ],
    "R9": [
        "a list 1 1 abc | a list 1 4 acb lock",
        "a orders 1 4 b list acb | a list 1 4 acb join b",
        "a orders 1 4 c list abc | a list 1 4 abc join b",
        "b list 1 4 ab join b | b shows a:1 1 3",
        "a list 1 4 ab join b | a list 1 5 ab join b",
    ],
    "R10": [
        f"{PAIR} | a list 1 2 ab | a sends a:1 | a orders 1 3 b: a:1 | b hears 1 3 | a keeps 1 from 5 needs 5",
        f"{PAIR} | a list 1 2 ab | a sends a:1 | b body a:1 | a orders 1 3 b: a:1 | a keeps 1 from 5 needs 5",
    ],
    "R11": [
        "a keeps 1 from 4 needs 5",
        "a keeps 1 from 5 needs 5 waiting a:3,b:1 queued a:2,b:1",
    ],
    "R12": [
        "a gets L 1 4 fence 7 | b gets L 1 4 fence 7",
        "a gets L 1 4 fence 7 | b gets L 1 9 fence 7",
        "a gets L 1 4 fence 7 | b gets L 2 5 fence 6",
        "a gets L 1 4 fence 7 outside",
    ],
    "R13": [
        "a told c:1 handler 1 owner b answers",
        "a told c:1 handler 1 owner a",
        "a told c:1 handler 1 owner a answers | a told c:1 handler 1 owner a answers",
        "a told c:1 handler 1 answers",
    ],
    "R14": [
        "a acknowledges x 4 | a stranger x 4",
        "b stranger x 4 | a acknowledges x 4",
        "a stranger x 4 | a stranger x 4",
        "a stranger x 4 | a ends removed | a acknowledges x 4",
    ],
    "R15": [
        "a list 1 1 a | a rests waiting 1",
        "a list 1 1 a | a rests calls 1",
        "x rests calls 1 apart",
        "a list 1 1 a | a rests passes 4 of 3",
        "a list 1 1 a | b list 2 1 b | a rests | b rests",
        "a list 1 1 a | a ends removed | a rests",
    ],
    "R16": [
        "a window 6 of 5",
        "a repeats P 3 of 2",
        "a asks minimum 2 | b asks minimum 254 | a list 1 2 ab minimum 2",
    ],
    "R17": [
        "a orders 1 1 b list abc | b orders 1 2 a | a orders 1 3 b | b orders 1 4 a | a orders 1 5 b",
        "a orders 1 1 a list ab | a orders 1 2 a list ab | a orders 1 3 a | a orders 1 4 a",
    ],
}
