import pytest

from hopring.spark.source.options import (
    EARLIEST,
    LATEST,
    ReadOptions,
    WrongOption,
    note,
    read_options,
    refuse,
    with_noted,
)


def test_only_the_path_has_to_be_given() -> None:
    assert read_options({"path": "/s"}) == ReadOptions(path="/s")


def test_all_options_are_read_whatever_their_case() -> None:
    said = {
        "PATH": "/s",
        "groups": "trades.eu, trades.*",
        "startingoffsets": '{"b": 7, "a": -1}',
        "endingOffsets": "latest",
        "maxOffsetsPerTrigger": "100",
        "maxBytesPerTrigger": "4096",
        "minOffsetsPerTrigger": "10",
        "maxTriggerDelay": "2 m",
        "consumer": "report",
        "failOnDataLoss": "False",
        "payload": "false",
        "minPartitions": "3",
        "pushFilters": "false",
    }

    assert read_options(said) == ReadOptions(
        path="/s",
        groups=("trades.eu", "trades.*"),
        starting={"a": LATEST, "b": 7},
        ending=LATEST,
        offsets_max=100,
        bytes_max=4096,
        offsets_min=10,
        delay_seconds=120.0,
        consumer="report",
        fail_on_data_loss=False,
        payload=False,
        partitions_min=3,
        push_filters=False,
    )


@pytest.mark.parametrize("said", ["1700000000000", "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00"])
def test_a_time_is_in_milliseconds_or_has_a_time_zone(said: str) -> None:
    found = read_options({"path": "/s", "startingTimestamp": said, "endingTimestamp": said})
    assert (found.starting_time_us, found.ending_time_us) == (1_700_000_000_000_000, 1_700_000_000_000_000)


def test_groups_can_have_times_of_their_own() -> None:
    times = '{"b": "2023-11-14T22:13:20Z", "a": 1700000000001}'
    found = read_options({"path": "/s", "startingOffsetsByTimestamp": times, "endingOffsetsByTimestamp": times})

    assert found.starting_time_us == {"a": 1_700_000_000_001_000, "b": 1_700_000_000_000_000}
    assert found.ending_time_us == found.starting_time_us


def test_a_path_may_be_a_uri_of_the_file_system() -> None:
    assert read_options({"path": "file:/some%20where/s"}).path == "/some where/s"
    assert read_options({"path": "file:///s"}).path == "/s"
    assert read_options({"path": "relative/s"}).path == "relative/s"


def test_the_options_of_a_table_in_the_catalog_are_kept_in_a_comment() -> None:
    plain = {"path": "file:/it's", "groups": "b"}
    made = {**plain, "provider": "hopring", "location": "file:/x", "owner": "me", "option.groups": "b"}

    comment = note(made)

    assert note(plain) == ""
    assert read_options(made) == read_options(plain)
    assert with_noted({}, ["", comment]) == plain
    assert with_noted({"GROUPS": "c"}, [comment]) == {"path": "file:/it's", "GROUPS": "c"}
    assert with_noted(plain, ["another comment"]) == plain


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({}, "option path: it is missing; give the directory"),
        ({"path": " "}, "option path: it is empty; give it a value"),
        ({"path": "/s", "startingOffset": "3"}, "option startingOffset: .* did you mean startingOffsets"),
        ({"path": "/s", "zzz": "3"}, "has no such option; the options are path, groups"),
        ({"path": "/s", "maxRecordsPerPartition": "3"}, "has no such option; the options are path, groups"),
        ({"path": "/s", "endingTimestamps": "3"}, "did you mean endingTimestamp"),
        ({"path": "s3://bucket/s"}, "option path: 's3://bucket/s' is not in the file system; give a directory"),
        (
            {"path": "/s", "maxTriggerDelay": "1m"},
            "maxTriggerDelay: minOffsetsPerTrigger is missing; give both",
        ),
        (
            {"path": "/s", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1"},
            "'1' is not a time with its unit",
        ),
        (
            {"path": "/s", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger: it is above maxOffsetsPerTrigger; give a smaller",
        ),
        (
            {"path": "/s", "startingOffsetsByTimestamp": "7"},
            "is not a JSON object with a time for each group; write",
        ),
        (
            {"path": "/s", "endingOffsetsByTimestamp": '{"a": "now"}'},
            "'now' is not a time with its zone",
        ),
        (
            {"path": "/s", "endingTimestamp": "1", "endingOffsets": "latest"},
            "endingTimestamp: endingOffsets is given as well; give one",
        ),
        ({"path": "/s", "payload": "no"}, "option payload: 'no' is neither true nor false; write true"),
        ({"path": "/s", "minPartitions": "0"}, "option minPartitions: '0' is not a number from 1 on"),
        (
            {"path": "/s", "startingOffsets": "first"},
            "'first' is neither earliest, latest nor JSON; write earliest",
        ),
        ({"path": "/s", "startingOffsets": '{"a": "x"}'}, "is not a JSON object with a number for each group"),
        ({"path": "/s", "endingOffsets": '{"a": -3}'}, "is not a JSON object with a number for each group"),
        ({"path": "/s", "endingOffsets": '{"a": true}'}, "is not a JSON object with a number for each group"),
        (
            {"path": "/s", "startingTimestamp": "2023-11-14T22:13:20"},
            "is not a time with its zone; write milliseconds",
        ),
        ({"path": "/s", "groupPattern": "("}, "is not a regular expression"),
        ({"path": "/s", "groups": "a", "groupPattern": "a"}, "groups is given as well; give one"),
        ({"path": "/s", "groups": "a,,b"}, "option groups: it is empty"),
        (
            {"path": "/s", "startingTimestamp": "1", "startingOffsets": "latest"},
            "startingOffsets is given as well",
        ),
        (
            {"path": "/s", "startingOffsets": "latest", "endingOffsets": "earliest"},
            "the end is before the start",
        ),
    ],
)
def test_invalid_options_are_refused_in_one_line_with_a_remedy(said: dict[str, str], match: str) -> None:
    with pytest.raises(WrongOption, match=match) as caught:
        read_options(said)

    assert "\n" not in str(caught.value)


def test_an_option_without_effect_is_refused() -> None:
    refuse({"path": "/s"}, ("maxOffsetsPerTrigger",), "without a stream")

    with pytest.raises(
        WrongOption, match="maxOffsetsPerTrigger: it has no meaning without a stream; leave it out"
    ):
        refuse({"maxoffsetspertrigger": "3"}, ("maxOffsetsPerTrigger",), "without a stream")


def test_the_earliest_is_the_default() -> None:
    assert read_options({"path": "/s"}).starting == EARLIEST
