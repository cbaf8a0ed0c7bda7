"""Whatever is hashed, signed or derived depends on each of its parts: none can be exchanged for another unnoticed.

Two views that differ in one part would otherwise count as one, or a part that one party signed could be moved to
another round, client or pair.
"""

from functools import partial

import pytest
from msgspec.structs import replace

from f2ed.deployment import log_events
from f2ed.deployment.hello import hello_text, helper_hello_text
from f2ed.protocol.primitives.hybrid import Encapsulated
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.messages import SignedKey
from f2ed.protocol.secagg.schemes.all_or_nothing import pairs
from f2ed.protocol.secagg.schemes.dropout_tolerant import keys, links, merkle
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Advertisement, Complaint, Link, Parcel
from f2ed.protocol.secagg.terms import Terms, bind, bind_epoch

A, B = bytes(32), b"\1" * 32
ROSTER = {client: bytes([client]) * 32 for client in range(1, 6)}
TERMS = Terms(
    job="a job",
    epoch=1,
    round=2,
    shard=0,
    members=(1, 2, 3, 4),
    mode="dropout-tolerant",
    threshold=3,
    min_crowd=3,
    colluders=0,
    length=10,
    ring=32,
    bits=8,
    clip_value=1.0,
    clip_norm=2.0,
    weights=(1, 1, 2, 2),
    weight_cap=2,
    noise=0.5,
    carriers=2,
    groups=((1, 2), (3, 4)),
)
OTHER_TERMS = {
    "job": "b job",
    "epoch": 2,
    "round": 3,
    "shard": 1,
    "members": (1, 2, 3, 5),
    "mode": "all-or-nothing",
    "threshold": 4,
    "min_crowd": 4,
    "colluders": 1,
    "length": 11,
    "ring": 64,
    "bits": 9,
    "clip_value": 1.5,
    "clip_norm": 2.5,
    "weights": (1, 2, 1, 2),
    "weight_cap": 3,
    "noise": 0.25,
    "carriers": 1,
    "groups": ((1, 3), (2, 4)),
    "agreement": "x25519",
}


WHO = ("job", "epoch", "shard", "members", "mode", "agreement")


def advertised(client, byte=10):
    return Advertisement(client, *(bytes([byte + place]) * 32 for place in range(5)), bytes(64))


ONE, TWO = advertised(1), advertised(2, 20)
PAIR = links.Pair(ONE, TWO, linked=True)
MADE = Encapsulated(b"c" * 8, b"s" * 32)
PARCEL = Parcel(1, 2, b"sealed", b"m" * 16, b"s" * 16, b"ciphertext", Link(b"link", A, B))
SIGNED_KEY = SignedKey(1, A, b"kem", bytes(64))
COMPLAINT = Complaint(1, 2, A, bytes(64))

# What is called, and one or more other values for each of its arguments.
CASES = {
    "a round's masks": (
        partial(bind, roster=ROSTER, model=A),
        [(TERMS, [replace(TERMS, **{name: other}) for name, other in OTHER_TERMS.items()])],
    ),
    "a round's model": (lambda model: bind(TERMS, ROSTER, model), [(A, [B])]),
    "a round's keys": (lambda key: bind(TERMS, ROSTER | {3: key}, A), [(A, [B])]),
    "an epoch's keys": (
        partial(bind_epoch, roster=ROSTER, since=1),
        [
            (
                TERMS,
                [replace(TERMS, **{name: OTHER_TERMS[name]}) for name in WHO],
            ),
        ],
    ),
    "the round an epoch began": (lambda since: bind_epoch(TERMS, ROSTER, since), [(1, [2])]),
    "a hello": (
        hello_text,
        [("job", ["job 2"]), (1, [2]), (2, [3]), (A, [B]), (4, [5]), (b"nonce", [b"other"])],
    ),
    "a helper's hello": (
        helper_hello_text,
        [("job", ["job 2"]), (1, [2]), ("mixer", ["judge"]), (A, [B]), (b"nonce", [b"other"])],
    ),
    "an epoch key": (
        pairs.key_text,
        [
            (A, [B]),
            (SIGNED_KEY, [replace(SIGNED_KEY, client=2), replace(SIGNED_KEY, key=B), replace(SIGNED_KEY, kem=b"k")]),
        ],
    ),
    "all epoch keys": (
        pairs.keyset_digest,
        [
            (
                (SIGNED_KEY,),
                [
                    (),
                    (SIGNED_KEY, SIGNED_KEY),
                    *((replace(SIGNED_KEY, **each),) for each in ({"client": 2}, {"key": B}, {"kem": b"k"})),
                ],
            )
        ],
    ),
    "ciphertexts": (pairs.wraps_text, [(A, [B]), (A, [B]), (1, [2]), ((A, B), [(B, A), (A,)])]),
    "a chain": (
        lambda context, sender, recipient, one, two, kem, ciphertext, exchanged, encapsulated: pairs.root(
            context,
            sender=sender,
            recipient=recipient,
            keys=(one, two),
            recipient_kem=kem,
            ciphertext=ciphertext,
            exchanged=exchanged,
            encapsulated=encapsulated,
        ),
        [(A, [B]), (1, [3]), (2, [3]), (A, [B]), (A, [B]), (b"kem", [b"k"]), (b"ct", [b"c"]), (A, [B]), (A, [B])],
    ),
    "the mask of a pair": (
        lambda context, agreed, other: pair_mask(context, agreed, 1, other).key,
        [(A, [B]), (A, [B]), (2, [3])],
    ),
    "the mask of a pair, from the other side": (
        lambda mine: pair_mask(A, A, mine, 2).key,
        [(1, [0])],
    ),
    "a self mask": (lambda *given: keys.seed_mask(*given).key, [(A, [B]), (1, [2]), (A, [B])]),
    "an advertisement": (
        keys.advertisement_text,
        [
            (A, [B]),
            (
                ONE,
                [
                    replace(ONE, **{name: B if name != "client" else 2})
                    for name in ("client", "channel", "mask", "channel_kem", "mask_kem", "commitment")
                ],
            ),
        ],
    ),
    "a parcel": (
        keys.parcel_digest,
        [
            (
                PARCEL,
                [
                    replace(PARCEL, **each)
                    for each in (
                        {"recipient": 3},
                        {"sealed": b"other"},
                        {"mask": b"o" * 16},
                        {"seed": b"o" * 16},
                        {"ciphertext": b"other"},
                        {"link": None},
                        {"link": Link(b"l", A, B)},
                        {"link": Link(b"link", B, B)},
                        {"link": Link(b"link", A, A)},
                    )
                ],
            )
        ],
    ),
    "all parcels of a dealer": (keys.parcels_text, [(A, [B]), (1, [2]), (A, [B]), (A, [B])]),
    "a complaint": (
        keys.complaint_text,
        [
            (A, [B]),
            (
                COMPLAINT,
                [
                    replace(COMPLAINT, **each)
                    for each in ({"client": 3}, {"dealer": 3}, {"parcel": B}, {"unlinked": True})
                ],
            ),
        ],
    ),
    "a view": (
        keys.view_digest,
        [(A, [B]), ({1: (A, B), 2: (B, A)}, [{1: (B, B), 2: (B, A)}, {1: (A, A), 2: (B, A)}, {1: (A, B), 3: (B, A)}])],
    ),
    "an upload": (keys.upload_tag, [(A, [B]), (A, [B])]),
    "who is alive": (keys.alive_text, [(A, [B]), (A, [B]), ((1, 2, 3), [(1, 2), (1, 2, 4)])]),
    "the commitment to a seed": (keys.seed_commitment, [(A, [B]), (1, [2]), (A, [B])]),
    "the commitment to a share": (
        keys.share_commitment,
        [(A, [B]), (b"mask", [b"seed"]), (1, [3]), (2, [3]), (b"share", [b"other"])],
    ),
    "what a parcel is sealed for": (keys.associated_data, [(A, [B]), (1, [3]), (2, [3])]),
    "a channel": (
        links.channel_key,
        [
            (A, [B]),
            (ONE, [replace(ONE, client=3), replace(ONE, channel=B)]),
            (TWO, [replace(TWO, client=3), replace(TWO, channel=B), replace(TWO, channel_kem=B)]),
            (A, [B]),
            (MADE, [Encapsulated(b"d" * 8, MADE.secret), Encapsulated(MADE.ciphertext, A)]),
        ],
    ),
    "a pair's masks": (
        links.mask_root,
        [
            (A, [B]),
            (
                PAIR,
                [
                    PAIR._replace(sender=replace(ONE, client=3)),
                    PAIR._replace(sender=replace(ONE, mask=B)),
                    PAIR._replace(recipient=replace(TWO, client=3)),
                    PAIR._replace(recipient=replace(TWO, mask=B)),
                    PAIR._replace(recipient=replace(TWO, mask_kem=B)),
                ],
            ),
            (A, [B]),
            (MADE, [Encapsulated(b"d" * 8, MADE.secret), Encapsulated(MADE.ciphertext, A)]),
        ],
    ),
    "the commitment to a link": (
        lambda *given: links.wrap(*given).commitment,
        [
            (A, [B]),
            (PAIR, [PAIR._replace(sender=replace(ONE, client=3)), PAIR._replace(recipient=replace(TWO, client=3))]),
            (A, []),
            (MADE, [Encapsulated(b"d" * 8, MADE.secret), Encapsulated(MADE.ciphertext, A)]),
        ],
    ),
    "a wrapped link": (
        lambda *given: links.wrap(*given).wrapped,
        [(A, [B]), (PAIR, [PAIR._replace(recipient=replace(TWO, client=3))]), (A, [B]), (MADE, [])],
    ),
    "the keys of a shard in a log": (
        lambda one, two: log_events._keyset((one, two)),
        [(advertised(1, 0), [advertised(1, 9), advertised(2, 0)]), (advertised(3, 0), [advertised(3, 9)])],
    ),
    "two digests in a tree": (lambda left, right: merkle.root_of([left, right]), [(A, [B]), (A, [B])]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_part_matters(name):
    function, arguments = CASES[name]
    base = [value for value, _ in arguments]
    found = [function(*base)]
    for place, (_, others) in enumerate(arguments):
        found += [function(*base[:place], other, *base[place + 1 :]) for other in others]
    assert len(set(found)) == len(found)


def test_every_field_of_the_terms_is_tried():
    assert OTHER_TERMS.keys() == set(Terms.__struct_fields__)
    assert all(getattr(TERMS, name) != other for name, other in OTHER_TERMS.items())


@pytest.mark.parametrize("number", [2**256, 2**256 + 296])
@pytest.mark.parametrize("alive", [True, False])
def test_a_number_beyond_every_secret_is_none_that_was_advertised(number, alive):
    """The field is a little larger than 32 bytes hold; a dealer may have shared such a number."""
    assert keys.matches(A, advertised(1, 0), number, alive=alive, kind="x25519+mlkem768") == b""
