"""Parties that lie, as patches of their own code: the honest ones must stop each of them, by name."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from f2ed.protocol.helpers import common_steps, judge, mixer, server_rows
from f2ed.protocol.helpers.field import add, pack, unpack
from f2ed.protocol.helpers.shares import GramShare
from f2ed.protocol.helpers.verdict import Verdict


def one(shape, place=0, value=1):
    """Return a matrix with one entry."""
    found = np.zeros(shape, np.uint64)
    found.flat[place] = value
    return found


def _wrapped(target, name, change):
    true = getattr(target, name)

    def lie(*given, **named):
        return change(true(*given, **named))

    return patch.object(target, name, lie)


def spoiled_share(row):
    """Alter an entry of the triangle that is sent."""
    return lambda share: GramShare(
        add(share.matrix, one(share.matrix.shape, row * len(share.matrix) + row + 1)), share.tests
    )


def spoiled_tests(share):
    return GramShare(share.matrix, add(share.tests, one(share.tests.shape)))


def spoiled_copy(row):
    return add(row, one(row.shape))


def server_share():
    """The server alters an entry of its share."""
    return _wrapped(server_rows, "server_share", spoiled_share(0))


def server_tests():
    return _wrapped(server_rows, "server_share", spoiled_tests)


def server_combination():
    return _wrapped(server_rows, "combine_rows", spoiled_copy)


def server_mask():
    """The server alters the mask of row 0, as if to make up for an altered share."""
    return _wrapped(server_rows, "combined_mask", spoiled_copy)


@contextmanager
def server_sketches(rows=(0,), value=2**25):
    """The server shifts sketches along a direction that it wants to ask about."""
    true = server_rows.ServerRows.sketch

    def lie(self, joint):
        data = unpack(true(self, joint), len(self.clients), self._terms.columns).copy()
        for row in rows:
            data[row] = add(data[row], np.full(self._terms.columns, value, np.uint64))
        self._masked = np.vstack([self._masked[:1], data])
        return pack(data)

    with patch.object(server_rows.ServerRows, "sketch", lie):
        yield


def mixer_share():
    return _wrapped(mixer, "mixer_share", spoiled_share(2))


def mixer_tests():
    return _wrapped(mixer, "mixer_share", spoiled_tests)


def mixer_combination():
    return _wrapped(mixer, "combine_rows", spoiled_copy)


def mixer_mask():
    return _wrapped(mixer, "combined_mask", spoiled_copy)


def mixer_sum():
    return _wrapped(mixer, "sum_masks", spoiled_copy)


def judge_hash():
    return _wrapped(judge, "sum_masks", spoiled_copy)


def judge_keeps(choose):
    """The judge signs other survivors than its rule found."""
    return _wrapped(judge, "decide", lambda found: replace_verdict(found, choose(found.kept)))


def replace_verdict(found, kept):
    return Verdict(tuple(kept), found.struck, found.eigenvalue, found.iterations, found.stopped)


@contextmanager
def helper_reveals(role):
    """A helper tells another half of the seed than it committed to."""
    module = {"mixer": mixer, "judge": judge}[role]
    step = module.AskReveal

    def lie(state, request, helper, given):
        after, told = common_steps.reveal(state, request, helper, given)
        return after, type(told)(bytes(32))

    with patch.dict(module.MACHINE, {step: lie}):
        yield


@contextmanager
def helper_accuses(role, count):
    """A helper accuses clients whose envelopes are good."""
    true = common_steps._accepted

    def lie(envelope, now, helper, *rest):
        if helper.role == role and envelope.client < count:
            raise common_steps.PeerError("I do not like it")
        return true(envelope, now, helper, *rest)

    with patch.object(common_steps, "_accepted", lie):
        yield
