import numpy as np
import pytest

from f2ed.guarantees.kept_sets import expected_cosine, kept_cosines
from f2ed.protocol.helpers import HelpersProtocol


def test_one_sum_of_all_tells_nothing_beyond_the_mean():
    assert not kept_cosines([tuple(range(6))], 6).any()


def test_two_sums_that_differ_by_one_client_give_it():
    found = kept_cosines([tuple(range(6)), tuple(range(1, 6))], 6)
    assert found[0] == pytest.approx(1)
    assert found[1:].max() < 0.5


def test_sums_of_whole_groups_are_bounded_by_the_root_of_their_size():
    found = kept_cosines([(0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7)], 12)
    assert found.max() <= np.sqrt(1 / 4) + 1e-9


def test_a_federation_that_never_has_a_crowd_opens_nothing():
    assert expected_cosine(HelpersProtocol(crowd=10), clients=10, rounds=3, away=1.0) == 0.0
