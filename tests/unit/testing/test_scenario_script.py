import pytest

from hopring.links.hop.hop import HopOptions
from hopring.testing.scenario.script import ScriptError, parse, replay
from hopring.testing.scenario.values import BadValue, duration_us, number, settings

STORY = """\
# Two words.
link a b
run 1s quiet

submit a one two
----
1000ms a->b  DATA 1 one two

run 20ms
hide ACK
----
1001ms b  deliver one two
"""


def test_a_scenario_replays_to_itself() -> None:
    assert replay(STORY, "story.txt") == STORY


def test_a_replay_returns_the_real_output() -> None:
    wrong = STORY.replace("deliver one two", "deliver one")

    assert replay(wrong, "story.txt") == STORY


def test_blocks_have_their_line_numbers() -> None:
    assert [(block.line, len(block.lines)) for block in parse(STORY)] == [(1, 3), (5, 1), (9, 2)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("fly a b", "no command 'fly'"),
        ("link a", "a link needs two hosts"),
        ("link a b wings=2", "'wings' is none of segment_bytes"),
        ("link a b window=2", "'window' may mean window_packets, window_bytes"),
        ("link a b protocol=ip", "no protocol 'ip'"),
        ("run 10", "'10' is no time"),
        ("run 10ms loudly", "run needs a time, and perhaps quiet"),
        ("lose a->b COW", "name a kind: ACK"),
        ("lose a->b DATA twice", "'twice' is no turn"),
        ("loss 5", "'5' is no probability"),
        ("crash q", "there is no host 'q'"),
        ("submit q word", "'q' is the end of 0 links"),
        ("cut a", "name the paths as A->B"),
        ("net", "a net needs sites"),
        ("seed 7", "write `seed N` as the first command"),
    ],
)
def test_a_wrong_command_names_its_file_and_line(line: str, problem: str) -> None:
    with pytest.raises(ScriptError) as caught:
        replay(f"# A story.\nlink x y\n\n{line}\n", "links/story.txt")

    assert str(caught.value).startswith(f"links/story.txt:4: {problem}")


def test_another_seed_gives_another_output() -> None:
    story = "link a b\nloss 30%\nsubmit a 20x1000B\nrun 1s quiet\nsummary\n"
    told = [replay(f"seed {seed}\n{story}", "story.txt").splitlines()[1:] for seed in (1, 1, 2)]

    assert told[0] == told[1]
    assert told[0] != told[2]


def test_values_are_read_with_their_units() -> None:
    assert [number(text) for text in ("10ms", "64KB", "1.5Mbit", "5%", "12", "none")] == [
        *(10_000, 65_536, 187_500, 0.05, 12),
        None,
    ]
    assert duration_us("2min") == 120_000_000
    with pytest.raises(BadValue):
        number("10 parsec")


def test_a_key_may_leave_the_unit_of_its_field_out() -> None:
    assert settings(["silence=2s", "rate=1Mbit", "nacks_max=3"], HopOptions) == {
        "silence_us": 2_000_000,
        "rate_bytes_per_second": 125_000,
        "nacks_max": 3,
    }
