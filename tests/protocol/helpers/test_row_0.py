"""Row 0 of the Gram matrix, which verifies it, tells the judge nothing about the others."""

import numpy as np
import pytest

from f2ed.protocol.helpers import shares
from f2ed.protocol.helpers.field import P
from f2ed.protocol.helpers.keys import joint_seed
from f2ed.protocol.helpers.plain import _sketches
from tests.protocol.helpers.federation import Federation, updates

SIZE = 50


def products(it, numbers):
    """Return, for each client, its product with the combination that the judge opens: true, and as row 0 says it."""
    seen = []
    true = shares.verified

    def verified(matrix, mask, weights, combined):
        seen.append((matrix, weights, combined))
        true(matrix, mask, weights, combined)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("f2ed.protocol.helpers.judge.verified", verified)
        assert it.run(numbers).mean is not None
    ((matrix, weights, combined),) = seen
    full = (np.triu(matrix) + np.triu(matrix, 1).T).astype(object)
    rows = _sketches(it.terms(), list(numbers.values()), joint_seed(*it.halves(it.terms()))).astype(object)
    said = (full[0, 1:] + weights.astype(object) @ full[1:, 1:]) % P
    return rows @ combined.astype(object) % P, said


def test_the_judge_learns_nothing_from_row_0():
    """It knows the combination x_0 + sum of u_i x_i; with row 0 it would know how every client lies along it."""
    it = Federation()
    true, said = products(it, updates(it.ids, SIZE))
    assert not (true == said).any()


def test_without_its_mask_it_would():
    it = Federation()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shares, "_tau", lambda _pairs, _other, rows: np.zeros(rows, np.uint64))
        true, said = products(it, updates(it.ids, SIZE))
    assert (true == said).all()
