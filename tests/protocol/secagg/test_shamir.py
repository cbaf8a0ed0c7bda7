"""Shamir's sharing against RFC 9591, and over its own prime."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from f2ed.core.errors import ConfigError, PeerError
from f2ed.protocol.secagg.shamir import PRIME, SHARE_BYTES, coefficients_from, combine, split

# RFC 9591, appendices E.1 and E.5: 2 of 3 shares by a trusted dealer.
RFC_9591 = [
    pytest.param(
        "little",
        2**252 + 27742317777372353535851937790883648493,
        "7b1c33d3f5291d85de664833beb1ad469f7fb6025a0ec78b3a790c6e13a98304",
        "178199860edd8c62f5212ee91eff1295d0d670ab4ed4506866bae57e7030b204",
        [
            "929dcc590407aae7d388761cddb0c0db6f5627aea8e217f4a033f2ec83d93509",
            "a91e66e012e4364ac9aaa405fcafd370402d9859f7b6685c07eed76bf409e80d",
            "d3cb090a075eb154e82fdb4b3cb507f110040905468bb9c46da8bdea643a9a02",
        ],
        id="Ed25519",
    ),
    pytest.param(
        "big",
        0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
        "0d004150d27c3bf2a42f312683d35fac7394b1e9e318249c1bfe7f0795a83114",
        "fbf85eadae3058ea14f19148bb72b45e4399c0b16028acaf0395c9b03c823579",
        [
            "08f89ffe80ac94dcb920c26f3f46140bfc7f95b493f8310f5fc1ea2b01f4254c",
            "04f0feac2edcedc6ce1253b7fab8c86b856a797f44d83d82a385554e6e401984",
            "00e95d59dd0d46b0e303e500b62b7ccb0e555d49f5b849f5e748c071da8c0dbc",
        ],
        id="secp256k1",
    ),
]


@pytest.mark.parametrize(("order", "modulus", "secret", "coefficient", "shares"), RFC_9591)
def test_the_dealer_of_rfc_9591_is_reproduced(order, modulus, secret, coefficient, shares):
    number = lambda text: int.from_bytes(bytes.fromhex(text), order)  # noqa: E731
    wanted = [number(share) for share in shares]
    assert split(number(secret), [number(coefficient)], 3, modulus=modulus) == wanted
    for pair in itertools.combinations((1, 2, 3), 2):
        assert combine({x: wanted[x - 1] for x in pair}, modulus=modulus) == number(secret)


def test_the_prime_is_prime_and_holds_every_secret_of_32_bytes():
    # Fermat to several bases, and no smaller candidate above 2^256 passes base 3.
    assert all(pow(base, PRIME - 1, PRIME) == 1 for base in (2, 3, 5, 7, 11, 13))
    assert not any(pow(3, n - 1, n) == 1 for n in range(2**256 + 1, PRIME, 2))
    assert (PRIME - 1).bit_length() <= 8 * SHARE_BYTES


@settings(deadline=None)
@given(
    st.integers(0, 2**256 - 1),
    st.lists(st.integers(0, PRIME - 1), max_size=12),
    st.integers(1, 8),
    st.randoms(use_true_random=False),
)
def test_any_threshold_of_shares_rebuilds_the_secret(secret, coefficients, spare, random):
    shares = split(secret, coefficients, len(coefficients) + spare)
    chosen = random.sample(range(len(shares)), len(coefficients) + 1)
    assert combine({x + 1: shares[x] for x in chosen}) == secret


def test_one_share_fewer_fits_every_secret():
    """For any two secrets there are coefficients that give the same two of three shares needed."""
    shares = split(5, [7, 11], 3)
    for other in (0, 6, PRIME - 1):
        # Solve for the polynomial through (0, other), (1, y1), (2, y2).
        y1, y2 = shares[0] - other, shares[1] - other
        c2 = (y2 - 2 * y1) * pow(2, -1, PRIME) % PRIME
        c1 = (y1 - c2) % PRIME
        assert split(other, [c1, c2], 3)[:2] == shares[:2]


def test_a_wrong_share_gives_a_wrong_secret():
    shares = split(12345, [1, 2], 4)
    assert combine({1: shares[0], 2: shares[1], 3: shares[2] ^ 1}) != 12345


def test_places_must_not_be_zero_or_empty():
    for shares in ({}, {0: 5, 1: 6}):
        with pytest.raises(PeerError, match="distinct and nonzero"):
            combine(shares)


def test_a_secret_outside_the_field_is_refused():
    with pytest.raises(ConfigError, match="257 bits"):
        split(PRIME, [1], 3)


def test_a_threshold_that_cannot_be_reached_is_refused():
    with pytest.raises(ConfigError, match="2 shares cannot reach a threshold of 3"):
        split(1, [2, 3], 2)


def test_coefficients_use_all_of_their_bytes():
    assert coefficients_from(bytes(47) + b"\x07" + b"\xff" * 48, 2) == [7, (2**384 - 1) % PRIME]
    with pytest.raises(ConfigError, match="96 are needed"):
        coefficients_from(bytes(95), 2)
