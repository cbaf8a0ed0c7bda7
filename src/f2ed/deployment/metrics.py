"""Metrics of a deployment in Prometheus' text format, from its records and from what its run notes.

All values come from the file of records and the `.run` file beside it, so nothing in the server has to be asked, and a
metric never says more than the records do. Counters count over the file; a file that is continued after a restart
keeps counting.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from cryptography.x509 import load_pem_x509_certificate

from f2ed.core.errors import ConfigError
from f2ed.deployment.run_lock import RunState, read_state
from f2ed.deployment.settings import HELPERS
from f2ed.records import Deployed, RoundRecord, RunHeader, RunLog, read

__all__ = [
    "METRICS",
    "Metric",
    "Sample",
    "Watched",
    "certificate_sample",
    "exposition",
    "run_samples",
    "watch_records",
]

Kind = Literal["counter", "gauge"]
_REGIONS = ("theorem", "experience", "nothing")


class Metric(NamedTuple):
    """A metric by its type and meaning."""

    kind: Kind
    meaning: str


METRICS: dict[str, Metric] = {
    "f2ed_info": Metric("gauge", "Always 1; the labels name versions, estimator and mode."),
    "f2ed_running": Metric("gauge", "1 while a run holds these records, else 0."),
    "f2ed_finished": Metric("gauge", "1 once every planned round is on record."),
    "f2ed_waiting": Metric("gauge", "1 while the run waits for clients before a round."),
    "f2ed_noted_timestamp_seconds": Metric("gauge", "When the run last noted its round or its waiting."),
    "f2ed_started_timestamp_seconds": Metric("gauge", "When the first run with these records began."),
    "f2ed_last_round_timestamp_seconds": Metric("gauge", "When the last round ended; the start before the first."),
    "f2ed_rounds_planned": Metric("gauge", "Rounds that the run shall lead."),
    "f2ed_rounds_total": Metric("counter", "Rounds that updated the model."),
    "f2ed_rounds_skipped_total": Metric("counter", "Attempts at a round that left the model unchanged."),
    "f2ed_clients": Metric("gauge", "Clients on the roster."),
    "f2ed_clients_dropped": Metric("gauge", "Clients that took no part in the last round."),
    "f2ed_clients_quarantined": Metric("gauge", "Clients that are not asked in the next round."),
    "f2ed_client_dropped_total": Metric("counter", "Rounds in which a client took no part."),
    "f2ed_client_quarantined": Metric("gauge", "1 for a client that is not asked in the next round."),
    "f2ed_client_late_total": Metric("counter", "Replies of a client that came after their deadline."),
    "f2ed_shards": Metric("gauge", "Shards of the roster."),
    "f2ed_shards_opened": Metric("gauge", "Shards that opened in the last round."),
    "f2ed_shard_closed_total": Metric("counter", "Rounds in which a shard was not used: it stayed closed."),
    "f2ed_shard_rejected_total": Metric("counter", "Rounds in which the estimator gave an open shard no weight."),
    "f2ed_clients_compared": Metric("gauge", "With helpers: clients whose updates the judge compared."),
    "f2ed_client_rejected_total": Metric("counter", "With helpers: rounds in which the judge left a client out."),
    "f2ed_relayed_bytes_total": Metric("counter", "To and from the mixer and the judge."),
    "f2ed_crowd": Metric("gauge", "The smallest number of clients in a sum that the last round opened; 0 for none."),
    "f2ed_crowd_minimum": Metric("gauge", "The smallest crowd that the roster allows."),
    "f2ed_exposed_clients": Metric("gauge", "Clients whose update the sums opened so far determine."),
    "f2ed_revealed_crowd": Metric("gauge", "The smallest group whose sum the rounds so far determine."),
    "f2ed_dp_epsilon": Metric("gauge", "Differential privacy spent so far by the client that spent most."),
    "f2ed_guarantee": Metric("gauge", "1 for the region of the last round: theorem, experience or nothing."),
    "f2ed_clipped_coordinates_total": Metric("counter", "Coordinates of updates that were clipped."),
    "f2ed_shortened_updates_total": Metric("counter", "Updates that were scaled down to the clip norm."),
    "f2ed_sent_bytes_total": Metric("counter", "Sent by a client, on average over the clients."),
    "f2ed_received_bytes_total": Metric("counter", "Sent to a client, on average, with the model."),
    "f2ed_round_seconds": Metric("gauge", "Duration of the last round by stage."),
    "f2ed_round_seconds_total": Metric("counter", "Duration of all rounds by stage."),
    "f2ed_accuracy": Metric("gauge", "Of the model after the last round, as evaluate_fn measured it."),
    "f2ed_loss": Metric("gauge", "Of the model after the last round, as evaluate_fn measured it."),
    "f2ed_measured": Metric("gauge", "A metric that the clients measured under masks, as a mean over them."),
    "f2ed_certificate_expiry_timestamp_seconds": Metric("gauge", "When a certificate file expires."),
}
"""Every metric there is. All have the labels `federation` and `records`, certificates the label `file`."""


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


class Watched(NamedTuple):
    """A deployment as its files show it."""

    records: str
    """The name of the file."""
    log: RunLog
    state: RunState | None
    held: bool
    """Whether a run is using the records now."""


def watch_records(path: Path) -> Watched:
    """Read a deployment's records, which may grow meanwhile, and what its run notes."""
    log = read(path)
    if log.header.source != "deployment":
        raise ConfigError(f"{path} holds the records of a simulation; metrics are those of a deployment")
    return Watched(path.name, log, *read_state(path))


def run_samples(watched: Watched) -> Iterator[Sample]:
    """Yield the metrics of a deployment."""
    common = {"federation": watched.log.header.name, "records": watched.records}
    for sample in (*_about_run(watched), *_about_rounds(watched), *_about_last(watched.log)):
        yield sample._replace(labels=common | dict(sample.labels))


def certificate_sample(path: Path) -> Sample:
    """Return when a certificate expires."""
    try:
        found = load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the certificate {path} cannot be read: {error.strerror}; name another") from None
    except ValueError:
        raise ConfigError(f"{path} is not a certificate in PEM; name another") from None
    expires = found.not_valid_after_utc.timestamp()
    return Sample("f2ed_certificate_expiry_timestamp_seconds", expires, {"file": path.name})


def exposition(samples: Iterable[Sample]) -> str:
    """Return samples in Prometheus' text format, each metric with its type and meaning."""
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.name, []).append(sample)
    return "".join(_block(name, found[name]) for name in METRICS if name in found)


def _about_run(watched: Watched) -> Iterator[Sample]:
    header, state = watched.log.header, watched.state
    yield Sample("f2ed_info", 1, _described(header))
    yield Sample("f2ed_running", watched.held)
    yield Sample("f2ed_finished", watched.log.finished)
    yield Sample("f2ed_waiting", watched.held and state is not None and bool(state.waiting))
    if state is not None and state.noted:
        yield Sample("f2ed_noted_timestamp_seconds", _timestamp(state.noted))
    yield Sample("f2ed_started_timestamp_seconds", _timestamp(header.started))
    yield Sample("f2ed_rounds_planned", header.rounds)
    yield Sample("f2ed_clients", header.clients)
    if header.mode != HELPERS:
        yield Sample("f2ed_shards", len(header.shards))
    yield Sample("f2ed_crowd_minimum", header.crowd)


def _described(header: RunHeader) -> dict[str, str]:
    versions = {name: header.versions.get(name, "") for name in ("f2ed", "flwr", "python")}
    serial = str(header.settings.get("roster", {}).get("serial", ""))
    return versions | {"estimator": header.estimator.full_kind, "mode": header.mode, "serial": serial}


def _about_rounds(watched: Watched) -> Iterator[Sample]:
    """Yield the counters."""
    log, state = watched.log, watched.state
    rounds, names = log.rounds, log.header.names or {}
    yield Sample("f2ed_rounds_total", sum(each.skipped is None for each in rounds))
    attempts = sum(len(_deployed(each).attempts) for each in rounds)
    if state is not None and all(each.round + 1 < state.round for each in rounds):
        attempts += state.skipped  # At the round under way, of which there is no record yet.
    yield Sample("f2ed_rounds_skipped_total", attempts + sum(each.skipped is not None for each in rounds))
    for client in names or range(log.header.clients):
        labels = {"client": str(client), "name": names.get(client, "")}
        yield Sample("f2ed_client_dropped_total", sum(client in each.dropped for each in rounds), labels)
        yield Sample("f2ed_client_late_total", sum(client in _deployed(each).late for each in rounds), labels)
    yield from _about_rows(log)
    yield Sample("f2ed_clipped_coordinates_total", sum(each.clipped for each in rounds))
    yield Sample("f2ed_shortened_updates_total", sum(each.shortened for each in rounds))
    yield Sample("f2ed_sent_bytes_total", sum(each.bytes_up for each in rounds))
    yield Sample("f2ed_received_bytes_total", sum(each.bytes_down for each in rounds))
    for stage, seconds in _stages(rounds).items():
        yield Sample("f2ed_round_seconds_total", seconds, {"stage": stage})


def _about_rows(log: RunLog) -> Iterator[Sample]:
    """Yield the counters of shards; with helpers those of single clients, and of the helpers."""
    rounds, names = log.rounds, log.header.names or {}
    for row, members in enumerate(log.header.shards):
        rejected = sum(row in each.rejected for each in rounds)
        if log.header.mode == HELPERS:
            labels = {"client": str(members[0]), "name": names.get(members[0], "")}
            yield Sample("f2ed_client_rejected_total", rejected, labels)
            continue
        labels = {"shard": str(row)}
        yield Sample("f2ed_shard_closed_total", sum(row in each.excluded for each in rounds), labels)
        yield Sample("f2ed_shard_rejected_total", rejected, labels)
    for role in sorted({role for each in rounds for role in _deployed(each).relayed}):
        relayed = sum(_deployed(each).relayed.get(role, 0) for each in rounds)
        yield Sample("f2ed_relayed_bytes_total", relayed, {"helper": role})


def _about_last(log: RunLog) -> Iterator[Sample]:
    """Yield the gauges of the last round."""
    if not log.rounds:
        yield Sample("f2ed_last_round_timestamp_seconds", _timestamp(log.header.started))
        return
    last, names = log.rounds[-1], log.header.names or {}
    quarantined = _deployed(last).quarantined
    yield Sample("f2ed_last_round_timestamp_seconds", _timestamp(last.ended))
    yield Sample("f2ed_clients_dropped", len(last.dropped))
    yield Sample("f2ed_clients_quarantined", len(quarantined))
    for client in quarantined:
        yield Sample("f2ed_client_quarantined", 1, {"client": str(client), "name": names.get(client, "")})
    seen = "f2ed_clients_compared" if log.header.mode == HELPERS else "f2ed_shards_opened"
    yield Sample(seen, len(log.header.shards) - len(last.excluded))
    yield Sample("f2ed_crowd", last.crowd)
    if last.leak is not None:
        yield Sample("f2ed_exposed_clients", last.leak.exposed)
        yield Sample("f2ed_revealed_crowd", last.leak.crowd)
    if last.max_dp_epsilon is not None:
        yield Sample("f2ed_dp_epsilon", last.max_dp_epsilon)
    for region in _REGIONS:
        yield Sample("f2ed_guarantee", last.guarantee == region, {"region": region})
    for stage, seconds in _stages([last]).items():
        yield Sample("f2ed_round_seconds", seconds, {"stage": stage})
    for name, mean in _deployed(last).measured.items():
        if not isinstance(mean, tuple):
            yield Sample("f2ed_measured", mean, {"metric": name})
    if last.accuracy is not None:
        yield Sample("f2ed_accuracy", last.accuracy)
    if last.loss is not None:
        yield Sample("f2ed_loss", last.loss)


def _stages(rounds: Sequence[RoundRecord]) -> dict[str, float]:
    """Return the seconds of the stages that a deployment has."""
    found = [msgspec.structs.asdict(each.seconds) for each in rounds]
    return {stage: float(sum(each[stage] for each in found)) for stage in ("exchange", "sum", "estimate", "evaluate")}


def _deployed(record: RoundRecord) -> Deployed:
    return record.deployed or Deployed()


def _timestamp(written: str) -> float:
    return datetime.fromisoformat(written).timestamp() if written else nan


def _block(name: str, samples: Sequence[Sample]) -> str:
    metric = METRICS[name]
    lines = [f"# HELP {name} {metric.meaning}", f"# TYPE {name} {metric.kind}"]
    lines += [f"{name}{_labels(sample.labels)} {_number(sample.value)}" for sample in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    pairs = [f'{name}="{_escaped(value)}"' for name, value in labels.items()]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if not isfinite(value):
        return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))
