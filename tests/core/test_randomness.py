"""Named streams from one seed."""

import pytest

from f2ed.core.randomness import stream


def test_the_same_name_gives_the_same_numbers():
    assert stream(7, "batches", 3).integers(1 << 60) == stream(7, "batches", 3).integers(1 << 60)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((7, "a"), (8, "a")),
        ((7, "a"), (7, "b")),
        ((7, "a", 1, 2), (7, "a", 12)),
        ((7, 1), (7, "1")),
        ((7, "a/b"), (7, "a", "b")),
    ],
)
def test_another_seed_or_name_gives_others(one, other):
    assert stream(*one).integers(1 << 60) != stream(*other).integers(1 << 60)
