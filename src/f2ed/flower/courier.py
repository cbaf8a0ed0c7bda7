"""The app on a helper's node: it carries bytes between the server and `f2ed helper`, and holds nothing itself."""

from logging import ERROR, getLogger

from flwr.app import Context, Message

from f2ed.core.errors import ConfigError, PeerError
from f2ed.deployment.helper_agent import HELPER, carry, greet
from f2ed.flower.wire import carried_bytes, hello_nonce, reply_content
from f2ed.protocol.helpers.messages import Refused, write

__all__ = ["SILENT", "carried"]

_log = getLogger("f2ed.flower")

SILENT = "the helper behind this node gave no answer"
"""What a node says whose helper is down, or is being restarted."""


def carried(message: Message, context: Context) -> Message:
    """Return the helper's reply to a message; one that it cannot be asked, or does not answer, is refused."""
    try:
        reply = _asked(str(context.node_config[HELPER]), message, context)
    except PeerError as error:
        reply = write(Refused(str(error)))
    except ConfigError as error:
        _log.log(ERROR, "f2ed: %s", error)
        reply = write(Refused(SILENT))
    return Message(reply_content(reply), reply_to=message)


def _asked(path: str, message: Message, context: Context) -> bytes:
    nonce = hello_nonce(message)
    if nonce is not None:
        return greet(path, context.run_id, context.node_id, nonce)
    return carry(path, context.run_id, carried_bytes(message))
