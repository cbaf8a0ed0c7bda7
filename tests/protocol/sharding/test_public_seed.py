import pytest
from hypothesis import given
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.sharding.public_seed import combine, commit, verify

CONTEXT = b"roster and epoch"
SHARES = {7: b"a" * 32, 2**64 - 1: b"b" * 32, 9: b"c" * 32}
COMMITMENTS = {author: commit(share, author=author, context=CONTEXT) for author, share in SHARES.items()}


def test_every_party_reaches_the_same_seed_in_whatever_order_the_shares_come():
    backwards = dict(reversed(SHARES.items()))
    assert combine(COMMITMENTS, SHARES, context=CONTEXT) == combine(COMMITMENTS, backwards, context=CONTEXT)


def test_the_seed_is_pinned():
    found = combine(COMMITMENTS, SHARES, context=CONTEXT).hex()
    assert found == "e11d2a587f9302d51cc35180f77ddb00898216cd5e9f45fc49096eee84302424"


@given(st.binary(min_size=32, max_size=32).filter(lambda share: share != SHARES[7]))
def test_each_share_changes_the_seed(share):
    shares = SHARES | {7: share}
    commitments = COMMITMENTS | {7: commit(share, author=7, context=CONTEXT)}
    assert combine(commitments, shares, context=CONTEXT) != combine(COMMITMENTS, SHARES, context=CONTEXT)


def test_another_share_than_the_committed_one_is_refused_with_its_author():
    with pytest.raises(PeerError, match="client 9 revealed another"):
        combine(COMMITMENTS, SHARES | {9: b"d" * 32}, context=CONTEXT)


def test_a_share_of_the_wrong_length_is_the_fault_of_its_author():
    with pytest.raises(PeerError, match="client 9"):
        combine(COMMITMENTS, SHARES | {9: b"d"}, context=CONTEXT)


def test_silence_after_a_commitment_is_refused_with_the_silent():
    with pytest.raises(PeerError, match="no seed share from 7, 9 after committing"):
        combine(COMMITMENTS, {2**64 - 1: SHARES[2**64 - 1]}, context=CONTEXT)


def test_many_silent_clients_are_named_in_short():
    commitments = {author: commit(b"s" * 32, author=author, context=CONTEXT) for author in range(10)}
    with pytest.raises(PeerError, match="0, 1, 2 and 7 more"):
        combine(commitments, {}, context=CONTEXT)


def test_a_share_without_a_commitment_is_refused():
    with pytest.raises(PeerError, match="without a commitment"):
        combine(COMMITMENTS, SHARES | {1: b"e" * 32}, context=CONTEXT)


def test_a_seed_needs_somebody():
    with pytest.raises(ConfigError, match="at least one party"):
        combine({}, {}, context=CONTEXT)


def test_a_copied_commitment_cannot_be_opened_with_the_copied_share():
    with pytest.raises(PeerError, match="client 8"):
        verify(COMMITMENTS[7], SHARES[7], author=8, context=CONTEXT)


def test_a_commitment_counts_in_its_own_context_only():
    with pytest.raises(PeerError, match="client 7"):
        verify(COMMITMENTS[7], SHARES[7], author=7, context=b"the next epoch")


def test_a_short_share_is_not_committed_to():
    with pytest.raises(ConfigError, match=r"31 bytes; draw 32"):
        commit(b"x" * 31, author=1, context=CONTEXT)


@pytest.mark.parametrize("author", [-1, 2**64])
def test_an_author_is_an_unsigned_number_of_64_bits(author):
    with pytest.raises(ConfigError, match="64 bits"):
        commit(b"x" * 32, author=author, context=CONTEXT)
