"""Sharded secure aggregation, without I/O: the server learns the sum of a shard's updates and nothing else.

Drivers bring bytes, entropy and time. A client calls `respond` for each request; the server drives `secure_sum`.
"""

from f2ed.secagg.client import Answer, respond
from f2ed.secagg.context import Mode, Terms, check, quorum
from f2ed.secagg.epoch_server import agree_on_keys
from f2ed.secagg.gather import Replies, Requests
from f2ed.secagg.member import Contribution, Member
from f2ed.secagg.messages import SignedKey
from f2ed.secagg.primitives import signing_key
from f2ed.secagg.ring import Ring, Width, Words
from f2ed.secagg.server import Outcome, secure_sum

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
