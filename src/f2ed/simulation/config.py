"""The settings of one run, and how they are read from an experiment file or from keywords.

A name such as `"krum"` stands for `{kind = "krum"}`, and settings that follow from others may be left out: an estimator
that needs a `contamination` gets m/p, the share of contaminated shards if every malicious client is in its own.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import msgspec
from msgspec import Meta

from f2ed.attacks import AnyAttack
from f2ed.core.errors import ConfigError
from f2ed.estimators import AnyEstimator
from f2ed.guarantees import malicious_in_sample, safe_k
from f2ed.learning import AnyDataset, AnyLoss, AnyModel, AnyPartition, Data, Loss, Training
from f2ed.learning.datasets import Given
from f2ed.learning.datasets.given import are_splits
from f2ed.learning.losses import CROSS_ENTROPY
from f2ed.learning.models import Mlp
from f2ed.learning.partition import Iid
from f2ed.protocol.aggregation import AnyServerOptimizer, Buffers, FedAvg, Protocol, ServerOptimizer
from f2ed.protocol.dp import Noise
from f2ed.protocol.helpers import HelpersProtocol
from f2ed.protocol.secagg import MaskedMode, Mode
from f2ed.protocol.secagg.schemes import Clear
from f2ed.protocol.sharding import EveryKRounds, Fixed, Schedule
from f2ed.simulation.config_errors import aliases, explain, named_code
from f2ed.simulation.early_stopping import EarlyStopping
from f2ed.simulation.estimator_defaults import check_rows, completed, default_rule
from f2ed.simulation.own import IMPORTED, check_hashable, factory_of, is_own, made, named, plain, with_entry_points

__all__ = ["PLUGINS", "Experiment", "experiment"]

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, lt=1)]

PLUGINS: dict[str, Any] = {
    "data": AnyDataset,
    "partition": AnyPartition,
    "model": AnyModel,
    "loss": AnyLoss,
    "attack": AnyAttack,
    "estimator": AnyEstimator,
    "schedule": Schedule,
    "server_optimizer": AnyServerOptimizer,
}
"""The settings that name a plug-in, and the registry of each."""

_STAND_INS = {
    "data": {"kind": "synthetic"},
    "partition": {"kind": "iid"},
    "attack": {"kind": "gaussian"},
    "server_optimizer": {"kind": "fedavg"},
}
"""What is read in the place of a plug-in that is in no registry, which then replaces it."""

_SHORT = {"buffers": "policy", "dp": "noise_multiplier", "early_stopping": "patience"}
"""Tables for which a word or a number stands, and the setting that it is."""

_ABSENT: dict[str, tuple[Any, ...]] = {
    "attack": ("none",),
    "buffers": ("average", {"policy": "average"}, plain(Buffers())),
    "client_weights": ("equal",),
    "dp": ("none",),
    "loss": ("cross-entropy", {"kind": "cross-entropy"}),
    "server_optimizer": ("fedavg", {"kind": "fedavg"}, plain(FedAvg())),
}
"""What is the same as leaving a setting out."""


@final
class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run: everything its results depend on."""

    data: AnyDataset
    partition: AnyPartition = Iid()
    model: AnyModel = Mlp()
    loss: AnyLoss | None = None
    """What training minimizes; cross-entropy by default."""
    metric: str | None = None
    """What is reported beside accuracy and loss: "rmse", "mae", or the import path of your own function."""
    training: Training = Training()
    client_momentum: Share | None = None
    """The beta of client momentum: clients send a running average of their updates."""
    clients: Count
    clients_per_round: Count | Annotated[float, Meta(gt=0, lt=1)] | None = None
    """How many clients take part in a round, or which share of them, drawn at random; everyone by default."""
    client_weights: Literal["equal", "samples"] | None = None
    """How much an update counts: "equal" (the default), or by the client's number of samples, which is then public."""
    max_weight: Count | None = None
    """With weights by samples, clients with more samples than this count as if they had this many."""
    malicious: Annotated[int, Meta(ge=0)] = 0
    """The number of malicious clients; without an attack they train honestly."""
    attack: AnyAttack | None = None
    attack_from: Annotated[int, Meta(ge=0)] = 0
    """The first round of the attack, counted from 0; until then malicious clients train honestly."""
    placement: Literal["spread", "packed"] | None = None
    """Which clients are malicious: in as many or as few shards of the first round as possible; by default any."""
    estimator: AnyEstimator
    root: Count | None = None
    """The number of samples that the server holds itself and trusts, for estimators that use a trusted update."""
    shards: Count | Literal["none"]
    """With "none", or as many as clients, the estimator sees every update and nothing is hidden."""
    schedule: Schedule = Fixed()
    server_optimizer: AnyServerOptimizer | None = None
    """What makes a step of the robust mean; by default (FedAvg) the mean is the step."""
    rounds: Annotated[int, Meta(ge=1, le=100_000)]
    early_stopping: EarlyStopping | None = None
    """End the run before its last round if the model does not become better; a number stands for its `patience`."""
    start: str | None = None
    """A saved model (safetensors) to start from; by default the weights are drawn from the seed."""
    seed: int = 0
    secure: bool = True
    """False sums the same integers in the clear: the same results in less time, and no secrecy."""
    protocol: Protocol = Protocol()
    helpers: HelpersProtocol | None = None
    """Two more parties instead of shards; `protocol = { kind = "helpers", … }` in files and keywords."""
    clip_value: Annotated[float, Meta(ge=1e-30, le=1e30)] = 1.0
    """Each coordinate is clipped to this magnitude. Honest updates rarely come near 1; attackers may."""
    clip_norm: Annotated[float, Meta(gt=0, le=1e30)] | None = None
    """Updates with a larger L2 norm are scaled down to it; no limit by default."""
    bits: Annotated[int, Meta(ge=2, le=48)] = 20
    """Bits per encoded coordinate; 20 bits at clip_value 1 are steps of 2e-6, rounded without bias."""
    buffers: Buffers | None = None
    """Statistics such as BatchNorm's: "average" (the default), "keep" the server's, "local" to each client (FedBN)."""
    unclipped: bool | None = None
    """With helpers: malicious clients do not clip, and those whose updates are found too long are out for the epoch."""
    client_dropout: Share = 0.0
    """The probability that a client drops out of a round."""
    dp: Noise | None = None
    """Noise for differential privacy; it needs shards and a `clip_norm`. A number stands for its `noise_multiplier`."""

    @property
    def task(self) -> Loss:
        """The loss."""
        return self.loss or CROSS_ENTROPY

    @property
    def server(self) -> ServerOptimizer:
        """The server optimizer."""
        return self.server_optimizer or FedAvg()

    @property
    def sampled(self) -> int:
        """The number of clients that take part in a round."""
        if self.clients_per_round is None:
            return self.clients
        share = isinstance(self.clients_per_round, float)
        return max(1, round(self.clients_per_round * self.clients)) if share else int(self.clients_per_round)

    @property
    def assumed_malicious(self) -> int:
        """How many malicious clients a round may have: all of them, or of a sample more in 1% of such runs at most."""
        if self.sampled >= self.clients:
            return self.malicious
        return malicious_in_sample(
            clients=self.clients, malicious=self.malicious, clients_per_round=self.sampled, rounds=self.rounds
        )

    @property
    def sharded(self) -> bool:
        """Whether the estimator sees shard means."""
        return self.shards not in ("none", self.sampled)

    @property
    def rows(self) -> int:
        """The number of rows that the estimator sees if every shard opens."""
        return self.sampled if self.shards == "none" else self.shards

    @property
    def crowd(self) -> int:
        """The size of the smallest shard."""
        return self.schedule.min_shard_size(self.sampled, self.rows)

    @property
    def shard_mode(self) -> MaskedMode:
        """The secure-aggregation mode of the smallest shard; in the clear, the mode that decides which shards open."""
        return self.protocol.mode_for(self.crowd)

    @property
    def mode(self) -> Mode | Literal["none", "helpers"]:
        """How updates are protected: "none" without shards or helpers, "clear" where sums are made without masks."""
        if self.helpers is not None:
            return "helpers" if self.secure else Clear.mode
        if not self.sharded:
            return "none"
        return self.shard_mode if self.secure else Clear.mode


def experiment(settings: Mapping[str, Any]) -> Experiment:
    """Return the complete settings, or raise `ConfigError` with the path of the setting to change."""
    if not isinstance(settings, Mapping):
        raise ConfigError(f"the settings are a {type(settings).__name__}; give a dictionary, as in an experiment file")
    given = {name: _plain(value, name) for name, value in _with_helpers(settings).items()}
    estimator, own = given.get("estimator"), _taken_out(given)
    # The rest is read first, since the estimator's contamination and the schedule's k follow from it.
    outline = msgspec.structs.replace(_with_k(given | {"estimator": {"kind": "mean"}}), **own)
    if is_own(estimator, "estimator"):
        check_rows(estimator, outline.rows)
        return msgspec.structs.replace(outline, estimator=estimator)
    if not isinstance(estimator, dict | None):
        what = (
            f'{named_code(estimator)}; wanted a name such as "filter-l2", a table with a kind, or a rule such as Mean()'
        )
        raise ConfigError(f"estimator: found {what}")
    table = default_rule(outline.helpers, outline.clients, outline.malicious) if estimator is None else estimator
    rule = completed(table, rows=outline.rows, malicious=outline.assumed_malicious)
    return msgspec.structs.replace(outline, estimator=rule)


def _with_helpers(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a protocol of the kind "helpers", which stands for itself and no shards; "shards" is the other kind."""
    protocol = given.get("protocol")
    if protocol in ("helpers", "shards"):
        protocol = {"kind": protocol}
    if isinstance(protocol, HelpersProtocol):
        protocol = {"kind": "helpers", **plain(protocol)}
    if isinstance(protocol, Mapping) and "kind" in protocol:
        kind, rest = protocol["kind"], {name: value for name, value in protocol.items() if name != "kind"}
        if kind not in ("helpers", "shards"):
            raise ConfigError(f'protocol.kind: there is no {kind!r}; use "shards" or "helpers"')
        given = {name: value for name, value in given.items() if name != "protocol"}
        given["helpers" if kind == "helpers" else "protocol"] = rest
    if given.get("helpers") is not None:
        given = {"shards": "none", **given}
    return given


def _taken_out(given: dict[str, Any]) -> dict[str, Any]:
    """Take plug-ins that are in no registry out of the settings, in place; return them."""
    own = {}
    for name, stand_in in _STAND_INS.items():
        value = given.get(name)
        if factory_of(value, name) is not None:
            value = made(value, name)
        if is_own(value, name):
            own[name], given[name] = value, stand_in
    return own


def _plain(value: Any, name: str) -> Any:
    """Turn structs into tables, and names into tables with a kind; aliases become the kinds they stand for."""
    if is_own(value, name):
        check_hashable(value, name)
        return value
    if name == "data" and (isinstance(value, tuple | list | Data) or are_splits(value)):
        value = Given.of(value)
    if name in {"model", "loss", "metric"} and callable(value) and not isinstance(value, msgspec.Struct):
        path = named(value, name)
        return path if name == "metric" else {"kind": IMPORTED, "factory": path}
    if isinstance(value, msgspec.Struct):
        value = plain(value, name)
    if value in _ABSENT.get(name, ()):
        return None
    if name in _SHORT and isinstance(value, int | float | str) and not isinstance(value, bool):
        return {_SHORT[name]: value}
    registry = AnyEstimator if name == "inner" else PLUGINS.get(name)
    if registry is None:
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if isinstance(value, Mapping):
        value = {key: _plain(inner, key) if key == "inner" else inner for key, inner in value.items()}
        value = with_entry_points(value, name)
        if isinstance(kind := value.get("kind"), str):
            value["kind"] = aliases(registry).get(kind, kind)
        if name == "schedule" and "kind" in value:
            value["type"] = value.pop("kind")
    return value


def _with_k(given: dict[str, Any]) -> Experiment:
    """Read everything but the estimator; the leak meter replaces `k = "auto"` by what is safe for these rounds."""
    schedule = given.get("schedule")
    if not (isinstance(schedule, dict) and schedule.get("k") == "auto"):
        return _convert(given)
    outline = _convert(given | {"schedule": schedule | {"k": 1}})
    if not (isinstance(outline.schedule, EveryKRounds) and outline.sharded):
        raise ConfigError('schedule.k: "auto" is for every-k-rounds, with shards; state a number')
    if outline.sampled < outline.clients:
        raise ConfigError('schedule.k: "auto" is for rounds in which everyone takes part; state a number, or use fixed')
    try:
        k = safe_k(
            clients=outline.clients,
            shards=outline.rows,
            rounds=outline.rounds,
            client_dropout=outline.client_dropout,
            mode=outline.shard_mode,
        )
    except ConfigError as error:
        raise ConfigError(f"schedule.k: {error}") from None
    return msgspec.structs.replace(outline, schedule=EveryKRounds(k))


def _convert(given: dict[str, Any]) -> Experiment:
    try:
        return msgspec.convert(given, Experiment)
    except msgspec.ValidationError as error:
        raise ConfigError(re.sub(r"^helpers\.", "protocol.", explain(str(error), given, Experiment))) from None
