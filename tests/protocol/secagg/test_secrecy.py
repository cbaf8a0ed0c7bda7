"""What the server sees is uniform: statistical tests with fixed seeds, whose verdict cannot change from run to run."""

import numpy as np
import pytest

from f2ed.protocol.secagg.messages import Upload, decode
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import TolerantUpload
from f2ed.protocol.secagg.shamir import PRIME
from tests.protocol.secagg.shard_driver import Shard, load

LENGTH = 50_000


def uploads_of(shard):
    shard.run()
    return {
        client: np.frombuffer(decode((Upload, TolerantUpload), data, payload=10**6).payload, np.uint8)
        for client, data in shard.uploads.items()
    }


def chi_square(values, cells):
    counts = np.bincount(values, minlength=cells)
    expected = len(values) / cells
    return float(((counts - expected) ** 2 / expected).sum())


def bound(cells):
    """Six standard deviations above the mean of the chi-square distribution of a uniform sample."""
    return cells - 1 + 6 * np.sqrt(2 * (cells - 1))


def quiet(mode, ring=32):
    """Return a shard whose members all upload zeros: what is not a mask would show at once."""
    shard = Shard(3, mode, length=LENGTH, ring=ring, bits=8, member={"clear": mode == "clear"})
    for vector in shard.vectors.values():
        vector[:] = 0
    return shard


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
@pytest.mark.parametrize("ring", [16, 24, 32, 64])
def test_masked_uploads_are_uniform(mode, ring):
    for upload in uploads_of(quiet(mode, ring)).values():
        assert chi_square(upload, 256) < bound(256)
        pairs = upload[0::2].astype(np.int64) * 256 + upload[1::2]
        assert chi_square(pairs >> 6, 1024) < bound(1024)


def test_the_statistic_sees_what_is_not_masked():
    shard = quiet("clear")
    for upload in uploads_of(shard).values():
        assert chi_square(upload, 256) > bound(256)


def test_uploads_of_equal_updates_have_nothing_in_common():
    uploads = list(uploads_of(quiet("dropout-tolerant")).values())
    for i, one in enumerate(uploads):
        for other in uploads[:i]:
            assert chi_square(one - other, 256) < bound(256)
            assert chi_square(one ^ other, 256) < bound(256)


@pytest.mark.parametrize("mode", ["all-or-nothing", "dropout-tolerant"])
def test_two_rounds_share_no_mask(mode):
    """With the same zeros in both rounds, the difference of two uploads is the difference of the masks."""
    shard = quiet(mode)
    first = uploads_of(shard)
    shard.next_round()
    second = uploads_of(shard)
    for client in first:
        assert chi_square(first[client] - second[client], 256) < bound(256)
        assert chi_square(first[client] ^ second[client], 256) < bound(256)


def test_all_uploads_but_one_tell_nothing_about_the_sum():
    """Without one member's upload, the total of the others is as uniform as a single one."""
    shard = quiet("all-or-nothing")
    shard.run()
    words = [
        np.frombuffer(decode((Upload, TolerantUpload), data, payload=10**6).payload, np.uint32)
        for client, data in shard.uploads.items()
        if client != 2
    ]
    partial = np.add.reduce(words, dtype=np.uint32).view(np.uint8)
    assert chi_square(partial, 256) < bound(256)


def test_the_shares_of_a_seed_tell_nothing_about_those_of_a_key():
    """The server rebuilds a survivor's seed; with the same coefficients, one share of its key would open that too."""
    shard, own, held = Shard(5), {}, {}

    def request(step, client, data):
        if step == "upload":
            own[client] = load(shard.states[client], "test").phase
        if step == "confirm":
            held[client] = load(shard.states[client], "test").phase.held
        return data

    assert shard.run(request=request).total is not None
    assert len(held) == 5
    for shares in held.values():
        for each in shares:
            seed, key, dealer = number(each.seed), number(each.mask), own[each.dealer]
            assert (key - seed + number(dealer.seed)) % PRIME != number(dealer.mask)


def number(data):
    return int.from_bytes(data, "big")
