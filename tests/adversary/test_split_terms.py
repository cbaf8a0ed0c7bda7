"""A server that tells one member other terms than its companions: the sum opens nothing, whichever field differs.

These clients derive no terms of their own, as in simulations, so that the binding of the masks is all that is left.
"""

import pytest
from msgspec.structs import replace

from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.secagg import read_request
from f2ed.protocol.secagg.messages import AskUpload, Upload, read_reply, write
from tests.protocol.secagg.shard_driver import Shard

SIZE, VICTIM = 6, 1
SIGNED = {"weights": (2, 2, 1, 1, 1, 1), "weight_cap": 2, "noise": 0.5, "carriers": 2, "colluders": 1, "bits": 8}
LIES = {
    "round": 1,
    "colluders": 0,
    "bits": 9,
    "clip_value": 0.5,
    "clip_norm": 5.0,
    "weights": (1, 2, 2, 1, 1, 1),
    "weight_cap": 3,
    "noise": 0.25,
    "carriers": 1,
    "groups": ((1, 2), (3, 4, 5, 6)),
}


def opened(lie):
    """Return the tags of the uploads and whether their sum is that of the updates; the victim is told a lie."""
    shard = Shard(SIZE, "all-or-nothing", **SIGNED)

    def request(step, client, data):
        asked = read_request(data) if step == "upload" and client == VICTIM else None
        return write(replace(asked, terms=replace(asked.terms, **lie))) if isinstance(asked, AskUpload) else data

    shard.run(request=request)
    uploads = [read_reply(Upload, shard.uploads[client], payload=10**6) for client in shard.members]
    ring = Ring(shard.terms.ring)
    total = ring.zeros(shard.terms.length)
    for upload in uploads:
        ring.add_packed(total, upload.payload)
    return {upload.tag for upload in uploads}, [int(word) for word in total] == shard.sum_of(shard.members)


def test_members_that_are_told_the_same_open_their_sum():
    tags, right = opened({})
    assert len(tags) == 1
    assert right


@pytest.mark.parametrize("field", LIES)
def test_a_victim_that_is_told_other_terms_is_not_opened(field):
    tags, right = opened({field: LIES[field]})
    assert not right
    assert len(tags) == 2
