"""Names of files: none leaves the directory of its set."""

import pytest

from hopring.errors import PeerError
from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.link.frames import WideFile
from hopring.haul.stored.names import check_file, directory_of, name_problem, place_of

PARCEL = ParcelId(ClusterId(2), 17)


@pytest.mark.parametrize("name", ["", "seg17", "day 5/seg17.mseed", "a/b/c", "..seg", "été"])
def test_names_that_stay_in_the_directory_are_taken(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../x", "a/../../x", "a/..", ".", "a/./b", "/etc/passwd", "a//b", "a/"),
        *("a\\..\\b", "a\0b", "a\nb", "seg17.part", "day.part/seg17", "incoming/2.17", "x" * 256),
    ],
)
def test_other_names_are_refused(name: str) -> None:
    assert name_problem(name) is not None
    with pytest.raises(PeerError):
        check_file(WideFile(name, 1, bytes(32)))


def test_a_file_without_a_name_goes_to_a_place_of_its_own() -> None:
    assert place_of(WideFile("", 1, bytes(32)), PARCEL) == "incoming/2.17"
    assert place_of(WideFile("seg17", 1, bytes(32)), PARCEL) == "seg17"


def test_sets_have_different_directories_whatever_they_are_called() -> None:
    names = ["tickets", "..", "a/b", "a%2fb", "été", "A", "a"]
    directories = [directory_of(one) for one in names]

    assert len(set(directories)) == len(names)
    assert not any("/" in one or "." in one for one in directories)
