"""Variations of the known attacks, each through real nodes: key files, state files and signed rosters."""

import msgspec

from f2ed.deployment.roster.draw import drawn
from f2ed.protocol.secagg.messages import AskKey, SignedKey
from tests.adversary.test_draw import Federation
from tests.flower.lying_server import LyingServer

replace = msgspec.structs.replace


def test_an_authority_cannot_try_serials_until_the_groups_suit(tmp_path):
    """Serials may be left out; if the draw depended on the number, it would be a nonce to grind."""
    federation = Federation(tmp_path)
    outline = replace(federation.roster, groups=(), seed=b"", draw=replace(federation.roster.draw, link=0))
    made = {
        drawn(replace(outline, serial=serial), range(8), count=2, secret=federation.chain).groups[0].members
        for serial in (1, 2, 3, 50, 2**40)
    }
    assert made == {federation.roster.groups[0].members}


def test_a_zero_with_a_sign_is_another_term(tmp_path):
    """-0.0 equals 0.0: the node would follow its own terms, and write another context into its log."""
    server = LyingServer(tmp_path, 4)
    assert server.ask(0, AskKey(server.terms(noise=-0.0)), SignedKey) is None
    assert "the server states noise -0.0 for round 0; this client's roster says 0.0" in server.refusals[0]
    assert server.ask(0, AskKey(server.terms()), SignedKey)
