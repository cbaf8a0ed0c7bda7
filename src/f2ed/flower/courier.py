"""On a helper's node: bytes are carried between the server and `f2ed helper`, and nothing else is done."""

from logging import ERROR, getLogger

from flwr.app import Message

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.helper_agent import Answered, carry, greet
from f2ed.flower.wire import carried_bytes, hello_nonce, reply_content
from f2ed.protocol.helpers.messages import Refused, write

__all__ = ["SILENT", "carried"]

_log = getLogger("f2ed.flower")

SILENT = "the helper behind this node gave no answer"
"""What a node says whose helper is down, or is being restarted."""


def carried(message: Message, path: str, *, run: int, node: int) -> Message:
    """Return the reply of the helper at a socket; one that it cannot be asked, or does not answer, is refused."""
    try:
        nonce = hello_nonce(message)
        found = carry(path, run, carried_bytes(message)) if nonce is None else greet(path, run, node, nonce)
    except PeerError as error:
        found = Answered(write(Refused(str(error))))
    except ConfigError as error:
        _log.log(ERROR, "f2ed: %s", error)
        found = Answered(write(Refused(SILENT)))
    return Message(reply_content(found.reply, found.line), reply_to=message)
