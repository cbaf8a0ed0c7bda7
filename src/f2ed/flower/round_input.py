"""What the clients of a round are given, as `configure_train` of the strategy says it.

Flower's strategies return one message per client. Under masks all members of a shard must be given the same, or their
sum opens nothing; so the messages have to agree, and may hold the model and one record of settings, no more.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from f2ed.core.errors import ConfigError, Refusal
from f2ed.deployment.train_input import plain_settings
from f2ed.deployment.training_rules import SERVER_ROUND, TrainingRules
from f2ed.flower.wire import ARRAYS, CONFIG

__all__ = ["Configure", "RoundInputs", "one_message"]

Configure: TypeAlias = Callable[[int, ArrayRecord, ConfigRecord], Iterable[Message]]
"""`configure_train` on a grid."""


class _Known(NamedTuple):
    round: int
    config: ConfigRecord


class RoundInputs:
    """Calls `configure_train` once for each round, also where a round is led again after it was skipped."""

    def __init__(self, configure: Configure, configs: Sequence[ConfigRecord], rules: TrainingRules) -> None:
        self._configure = configure
        self._configs = configs
        self._rules = rules
        self._known: _Known | None = None

    def __call__(self, round_: int, arrays: ArrayRecord) -> ConfigRecord:
        """Return the settings of a round, counted from 1, or raise `ConfigError` for what no client would follow."""
        if self._known is None or self._known.round != round_:
            given = self._configs[round_ - 1]
            given[SERVER_ROUND] = round_
            config = _agreed(self._configure(round_, arrays, given), arrays)
            self._check(config, round_)
            self._known = _Known(round_, ConfigRecord(dict(config)))
        return self._known.config

    def _check(self, config: ConfigRecord, round_: int) -> None:
        if config.get(SERVER_ROUND) != round_:
            raise ConfigError(
                f"configure_train set {SERVER_ROUND!r} to {config.get(SERVER_ROUND)!r} in round {round_}, which is the "
                "strategy's own setting; choose another name"
            )
        try:
            self._rules.check_settings(plain_settings(config))
        except Refusal as error:
            raise ConfigError(f"the clients would refuse the settings of round {round_}: {error}") from None


def one_message(arrays: ArrayRecord, config: ConfigRecord) -> Message:
    """Return the message that stands for those to all clients."""
    return Message(RecordDict({ARRAYS: arrays, CONFIG: config}), 0, "train")


def _agreed(messages: Iterable[Message], arrays: ArrayRecord) -> ConfigRecord:
    """Return the settings in all of these messages."""
    first: RecordDict | None = None
    for message in messages:
        if message.metadata.message_type != "train":
            raise ConfigError(
                f"configure_train made a message of type {message.metadata.message_type!r}; F2ed sends 'train' alone"
            )
        if first is not None and message.content is not first and dict(message.content) != dict(first):
            raise ConfigError(
                "configure_train made messages that differ; under masks all clients must be given the same model and "
                "settings, or no sum opens"
            )
        first = message.content
    if first is None:
        raise ConfigError("configure_train made no message; F2ed asks all clients that the roster assigns to a round")
    if len(first.array_records) != 1 or len(first.config_records) > 1 or first.metric_records:
        raise ConfigError(
            f"configure_train made messages with the records {', '.join(sorted(first))}; F2ed sends one model and one "
            "record of settings. Further records, such as SCAFFOLD's control variates, are not supported"
        )
    (sent,) = first.array_records.values()
    if sent is not arrays and dict(sent) != dict(arrays):
        raise ConfigError(
            "configure_train changed the model; clients train the global one, to which their updates are added"
        )
    return next(iter(first.config_records.values()), ConfigRecord())
