"""Sharded secure aggregation, without I/O: the server learns the sum of a shard's updates and nothing else.

Drivers bring bytes, entropy and time. A client calls `respond` for each request; the server drives `secure_sum`.
"""

from f2ed.protocol.primitives.crypto import signing_key
from f2ed.protocol.primitives.ring import Ring, Width, Words
from f2ed.protocol.secagg.client import Answer, respond
from f2ed.protocol.secagg.gather import Replies, Requests
from f2ed.protocol.secagg.member import Contribution, Member
from f2ed.protocol.secagg.messages import SignedKey
from f2ed.protocol.secagg.schemes.all_or_nothing_server import agree_on_keys
from f2ed.protocol.secagg.server import Outcome, secure_sum
from f2ed.protocol.secagg.terms import Mode, Terms, check, quorum

__all__ = [
    "Answer",
    "Contribution",
    "Member",
    "Mode",
    "Outcome",
    "Replies",
    "Requests",
    "Ring",
    "SignedKey",
    "Terms",
    "Width",
    "Words",
    "agree_on_keys",
    "check",
    "quorum",
    "respond",
    "secure_sum",
    "signing_key",
]
