"""Sharded secure aggregation, without I/O: the server learns the sum of a shard's updates and nothing else.

Drivers bring bytes, entropy and time. A client calls `respond` for each request; the server drives `secure_sum`.
The schemes, the names of their modes and the default choice are in `schemes`.
"""

from f2ed.protocol.primitives.crypto import public_key
from f2ed.protocol.primitives.hybrid import encapsulate
from f2ed.protocol.primitives.ring import Ring, Width, Words
from f2ed.protocol.secagg.blame import Blame
from f2ed.protocol.secagg.checks import check
from f2ed.protocol.secagg.client import Answer, respond
from f2ed.protocol.secagg.gather import Replies, Requests
from f2ed.protocol.secagg.member import Contribution, Member
from f2ed.protocol.secagg.messages import Opening, Refused, Request, Upload, read_reply, write
from f2ed.protocol.secagg.schemes import MaskedMode, Mode, ModeChoice, Scheme, choose_mode, read_request, scheme_of
from f2ed.protocol.secagg.schemes.base import ShardKeys
from f2ed.protocol.secagg.server import ShardSum, secure_sum
from f2ed.protocol.secagg.terms import MIN_CROWD, Terms

__all__ = [
    "MIN_CROWD",
    "Answer",
    "Blame",
    "Contribution",
    "MaskedMode",
    "Member",
    "Mode",
    "ModeChoice",
    "Opening",
    "Refused",
    "Replies",
    "Request",
    "Requests",
    "Ring",
    "Scheme",
    "ShardKeys",
    "ShardSum",
    "Terms",
    "Upload",
    "Width",
    "Words",
    "check",
    "choose_mode",
    "encapsulate",
    "public_key",
    "read_reply",
    "read_request",
    "respond",
    "scheme_of",
    "secure_sum",
    "write",
]
