"""Links of the authority's chain: each belongs to the head, none is chosen, skipped or used twice."""

import pytest

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.sharding.chain import MAX_LINKS, chain_head, chain_link, check_link

SECRET = bytes(range(32))


def test_the_chain_is_pinned():
    assert chain_head(SECRET).hex() == "fd3809d0a670275c929c7ccc63de1b2a5c1c8b55e5163512c5f51a251b697731"
    assert chain_link(SECRET, MAX_LINKS) == SECRET


@pytest.mark.parametrize(("at", "index"), [(0, 1), (0, 5), (3, 4), (0, MAX_LINKS)])
def test_a_link_hashes_back_to_every_earlier_one(at, index):
    check_link(chain_link(SECRET, index), index, earlier=chain_link(SECRET, at), at=at)


@pytest.mark.parametrize(
    ("link", "index"),
    [
        (chain_link(bytes(32), 2), 2),
        (chain_link(SECRET, 3), 2),
        (chain_link(SECRET, 1), 2),
        (chain_link(SECRET, 2)[:31], 2),
        (bytes(32), 2),
    ],
)
def test_a_link_that_was_chosen_is_refused(link, index):
    with pytest.raises(PeerError, match="link 2 does not belong"):
        check_link(link, index, earlier=chain_link(SECRET, 1), at=1)


@pytest.mark.parametrize("index", [0, 1, MAX_LINKS + 1])
def test_a_link_is_never_used_twice(index):
    with pytest.raises(PeerError, match="used in order, once"):
        check_link(chain_link(SECRET, 1), index, earlier=chain_link(SECRET, 1), at=1)


def test_a_short_secret_is_refused():
    with pytest.raises(ConfigError, match="31 bytes; draw 32"):
        chain_head(bytes(31))


@pytest.mark.parametrize("index", [-1, MAX_LINKS + 1])
def test_a_chain_ends(index):
    with pytest.raises(ConfigError, match="new chain"):
        chain_link(SECRET, index)
