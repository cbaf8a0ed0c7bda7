"""The client's side: a Flower mod around the user's own training function.

    app = ClientApp(mods=[protect])

The function trains as before, on an input that is bound to the masks and on nothing else. Only the difference to the
global model leaves, clipped, encoded and masked, after the terms of the round and the roster's rules have been checked.
Whether training succeeded is not visible from outside.

The checks and everything after training are those of `f2ed.deployment.node_step`. They run in this process, or in the
node's agent where `f2ed node` started one: then this process holds no key. On the node of a helper, which names the
socket of `f2ed helper` with the setting f2ed-helper, messages are carried there, and nothing is trained.
"""

import os
from collections.abc import Callable
from logging import ERROR, getLogger
from typing import TypeAlias

import msgspec
from flwr.app import Context, Error, Message
from flwr.common.constant import ErrorCode

from f2ed.core.errors import ConfigError
from f2ed.deployment.agent import AGENT, ask_agent
from f2ed.deployment.asked import Asked, Need, Reply, Train, Vector
from f2ed.deployment.helper_agent import HELPER
from f2ed.deployment.node_step import FAILED, NOT_SET_UP, answered
from f2ed.deployment.training_rules import TRAIN
from f2ed.flower.app_calls import evaluated, measured, trained_update
from f2ed.flower.context import identity_of
from f2ed.flower.courier import carried
from f2ed.flower.handover import Call, described
from f2ed.flower.wire import OURS, reply_content
from f2ed.protocol.secagg import Refused, write

__all__ = ["protect"]

_log = getLogger("f2ed.flower")

_Ask: TypeAlias = Callable[[Asked, Train], Reply]


def protect(message: Message, context: Context, call_next: Call) -> Message:
    """Answer the protocol's messages, training where one asks for an update; a plain one is never sent.

    Messages of other types, such as `evaluate`, are answered only where the roster lists them. What a node says about a
    failure depends on the request and the roster alone; anything else stays in its log.
    """
    if HELPER in context.node_config:
        return carried(message, str(context.node_config[HELPER]), run=context.run_id, node=context.node_id)
    try:
        return _answered(message, context, call_next, _key_holder(context))
    except ConfigError as error:
        _log.log(ERROR, "f2ed: this node cannot take part: %s", error)
        reason = NOT_SET_UP
    except Exception as error:  # noqa: BLE001  Flower would send its text, which may quote anything
        _log.log(ERROR, "f2ed: this node failed", exc_info=error)
        reason = FAILED
    return _message(message, Reply(write(Refused(reason)), refused=reason))


def _key_holder(context: Context) -> _Ask:
    """Return whom to ask: the node's agent, or else the same functions in this process."""
    if AGENT in context.node_config:
        return lambda asked, train: ask_agent(str(context.node_config[AGENT]), asked, train)
    return lambda asked, train: answered(lambda: identity_of(context), os.environ, asked, train)


def _answered(message: Message, context: Context, call: Call, ask: _Ask) -> Message:
    asked, given = described(message, context)

    def train(need: Need) -> Vector:
        assert given is not None  # noqa: S101  an update is asked for on an input alone
        if need.metrics:
            return measured(context, given, call, need)
        return trained_update(context, given, call, need)

    reply = ask(asked, train)
    if reply.refused or asked.kind == TRAIN or asked.evaluates_masked:
        return _message(message, reply)
    assert given is not None  # noqa: S101  as for every message of another type
    answer = evaluated(context, given, call, Need(reply.stateful, reply.buffers))
    if answer is None:
        return _message(message, ask(msgspec.structs.replace(asked, fault=FAILED), train))
    return Message(answer.content, reply_to=message)


def _message(message: Message, reply: Reply) -> Message:
    """Return a reply as the sender reads it: the strategy in the protocol's record, any other as Flower's error."""
    if message.metadata.message_type.partition(".")[0] == TRAIN or OURS in message.content.config_records:
        return Message(reply_content(reply.reply, reply.line), reply_to=message)
    reason = f"f2ed: this node refused: {reply.refused}"
    return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
