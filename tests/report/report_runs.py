"""Records made up for the report's tests: plausible curves, not the result of any training."""

import math
from pathlib import Path
from typing import get_args

import msgspec
import numpy as np

from f2ed.attacks import AnyAttack
from f2ed.estimators import AnyEstimator
from f2ed.guarantees import guarantee
from f2ed.records import RoundRecord, RunHeader, Seconds, line
from f2ed.records.migration import as_plugin

ROUNDS = 12
STRENGTH = {"none": 0.0, "krum-attack": 0.5, "trimmed-mean-attack": 0.7, "dba": 0.6}
WEAKNESS = {"mean": 1.0, "krum": 0.6, "trimmed-mean": 0.35, "filter-l2": 0.02}


TITLES = {each.__struct_config__.tag: each for each in (*get_args(AnyAttack), *get_args(AnyEstimator))}


def described(_, kind):
    """Return the title of a plug-in that is registered; another's is its kind."""
    known = TITLES.get(kind)
    return {"title": known.title, "family": known.family, "paper": known.paper} if known else {"title": kind}


def header(
    *,
    attack="trimmed-mean-attack",
    estimator="filter-l2",
    seed=0,
    rounds=ROUNDS,
    clients=100,
    malicious=10,
    shards=25,
    **more,
):
    """Return a header as a simulation writes it; `more` overrides its fields, or settings that are no fields."""
    fields = {key: more.pop(key) for key in list(more) if key in RunHeader.__struct_fields__}
    if isinstance(estimator, str):
        estimator = {"kind": estimator, "contamination": malicious / shards}
    stated = guarantee(clients=clients, malicious=malicious, shards=shards)
    settings = {
        "data": {"kind": "mnist"},
        "clients": clients,
        "malicious": malicious,
        "attack": None if attack == "none" else {"kind": attack},
        "estimator": estimator,
        "shards": shards,
        "schedule": {"type": "fixed"},
        "rounds": rounds,
        "seed": seed,
    } | more  # fmt: skip
    plain = {
        "name": f"demo-{attack}-{settings['estimator']['kind']}-{seed}",
        "digest": f"{attack}{estimator}{seed}{more}",
        "settings": settings,
        "seed": seed,
        "rounds": rounds,
        "versions": {"f2ed": "0.1.0", "python": "3.11.2", "torch": "2.13.0"},
        "device": "cpu",
        "dimension": 7850,
        "clients": clients,
        "malicious": tuple(range(malicious)),
        "estimator": as_plugin("estimator", settings["estimator"], described),
        "attack": None if attack == "none" else as_plugin("attack", {"kind": attack}, described),
        "samples": (600,) * clients,
        "labels": ((60,) * 10,) * clients,
        "shards": tuple(tuple(range(first, clients, shards)) for first in range(shards)),
        "mode": "all-or-nothing",
        "crowd": clients // shards,
        "guarantee": msgspec.to_builtins(stated),
        "started": "2026-01-01T12:00:00+00:00",
    }
    return msgspec.convert(plain | fields, RunHeader)


def deployed(**more):
    """Return a header as a deployment writes it: nobody knows who attacks."""
    head = header(attack="none", **more)
    return msgspec.structs.replace(head, source="deployment", malicious=None, samples=None, labels=None)


def deployed_record(head, number, **more):
    """Return a round of a deployment, without accuracy."""
    unknown = {"accuracy": None, "loss": None, "success": None, "contaminated": None}
    return record(head, number, **(unknown | more))


def record(head, number, **more):
    """Return a round: weak estimators lose what a strong attack takes, FilterL2 rejects contaminated shards."""
    attack = (head.settings["attack"] or {"kind": "none"})["kind"]
    kind = head.settings["estimator"]["kind"]
    hurt = STRENGTH.get(attack, 0.5) * WEAKNESS.get(kind, 0.3)
    targeted = attack == "dba"
    rng = np.random.default_rng([head.seed, number])
    reached = 0.95 * (1 - math.exp(-(number + 1) / 4))
    shards = len(head.shards)
    bad = tuple(range(10 * shards // 25)) if head.attacked else ()
    weights = np.ones(shards)
    if kind == "filter-l2":
        weights[list(bad)] = rng.random(len(bad)) * 0.15
    plain = {
        "round": number,
        "accuracy": max(0.1, reached * (1 - (0.02 if targeted else hurt)) + rng.normal() * 0.01),
        "loss": 2.3 - 2 * reached,
        "success": min(1.0, max(0.0, 1.6 * hurt * reached)) if targeted else None,
        "weights": None if kind in {"trimmed-mean", "median"} else tuple((weights / weights.sum()).tolist()),
        "excluded": {shards - 1: "1 of 4 members sent nothing: dropped out"} if number == 3 else {},
        "contaminated": bad,
        "eigenvalue": 0.02 * math.exp(-number / 5) + rng.random() * 0.002 if kind == "filter-l2" else None,
        "iterations": 12 if kind == "filter-l2" else 0,
        "stopped": ("a weight of 2f is removed" if number % 4 else "the remaining rows agree")
        if kind == "filter-l2"
        else "",
        "step": 0.5,
        "crowd": head.crowd,
        "bytes_up": 31_900,
        "bytes_down": 2_100,
        "guarantee": head.guarantee["region"],
        "seconds": Seconds(train=0.8, attack=0.1, protect=0.2, sum=0.05, estimate=0.02, evaluate=0.1),
    }
    return RoundRecord(**(plain | more))


def save(folder: Path, head: RunHeader, rounds: int | None = None, name: str = "") -> Path:
    """Write a run's file with so many rounds; by default all of them."""
    path = folder / f"{name or head.name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [head, *(record(head, number) for number in range(head.rounds if rounds is None else rounds))]
    path.write_bytes(b"".join(map(line, records)))
    return path


def demo(
    folder: Path, *, seeds=(0,), rounds=ROUNDS, estimators=tuple(WEAKNESS), attacks=tuple(STRENGTH), **more
) -> Path:
    """Write a grid of runs like the demo's."""
    for attack in attacks:
        for estimator in estimators:
            for seed in seeds:
                save(folder, header(attack=attack, estimator=estimator, seed=seed, rounds=rounds, **more))
    return folder
