"""A lying server wants a sum over fewer clients, or with less noise, than every node insists on."""

import msgspec
import pytest

from f2ed.deployment.roster import SignedEncoding
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.secagg import Terms
from f2ed.protocol.secagg.messages import write
from f2ed.protocol.secagg.schemes.dropout_tolerant.messages import Invite
from tests.flower.lying_server import LyingServer, can_open

CLIENTS = range(20)
WANTED = tuple(CLIENTS[:15])
OUT = CLIENTS[15:]


def lists():
    """Return a list of 16 survivors for every client, such that together they open a sum over 15."""
    found = {}
    for client in CLIENTS:
        spared = client if client in OUT else OUT[client % len(OUT)]
        found[client] = (*WANTED, spared)
    return found


def skipping(terms):
    """Return an invitation of the older format, under which clients unmask without asking each other."""
    tag, values = msgspec.msgpack.decode(write(Invite(terms)))
    names = list(Terms.__struct_fields__)
    if "consistent" not in names:
        names.insert(names.index("colluders") + 1, "consistent")
        values.insert(names.index("consistent"), False)
    values[names.index("consistent")] = False
    return msgspec.msgpack.encode([tag, values])


@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("skip", [False, True])
def test_no_sum_below_the_crowd_opens_and_none_with_fewer_noise_carriers(tmp_path, noise, skip):
    """Everyone is told another list of 16 survivors; on each of them the victims are among 16."""
    draft = {"encoding": SignedEncoding(clip_norm=1.0), "noise_multiplier": noise}
    server = LyingServer(tmp_path, len(CLIENTS), min_crowd=16, fields=draft)
    terms = server.terms(protocol=Protocol(threshold=14, min_crowd=16) if skip else None)
    assert (terms.mode, terms.min_crowd) == ("dropout-tolerant", 16)
    there = server.uploaded(terms, skipping(terms) if skip else None)
    assert len(there) == (0 if skip else 20)
    revealed = server.split({client: alive for client, alive in lists().items() if client in there})
    assert not can_open(revealed, CLIENTS, WANTED, terms.threshold)
    assert not revealed
    assert set(server.refusals) == set(CLIENTS)


def test_the_lists_of_the_attack_would_open_the_smaller_sum():
    """The attack is a real one: without the consistency step its lists give enough shares."""
    revealed = {(dealer, kind): 0 for dealer in CLIENTS for kind in ("seed", "mask")}
    for alive in lists().values():
        assert len(alive) == 16
        for dealer in CLIENTS:
            revealed[dealer, "seed" if dealer in alive else "mask"] += 1
    assert can_open(revealed, CLIENTS, WANTED, 14)
