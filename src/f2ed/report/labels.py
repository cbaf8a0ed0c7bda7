"""What settings are called on a page that is read by people who did not write them."""

from collections.abc import Mapping
from typing import Any

__all__ = [
    "ATTACKS",
    "ESTIMATORS",
    "NO_ATTACK",
    "STAGES",
    "attack_title",
    "estimator_title",
    "flat",
]

NO_ATTACK = "no attack"

ATTACKS = {
    "krum-attack": "Krum attack",
    "trimmed-mean-attack": "Trimmed-mean attack",
    "model-poisoning": "Model poisoning",
    "model-replacement": "Model replacement",
    "dba": "Distributed backdoor",
    "alie": "A little is enough",
    "ipm": "Inner product",
    "min-max": "Min-max",
    "min-sum": "Min-sum",
    "label-flip": "Label flip",
    "sign-flip": "Sign flip",
    "gaussian": "Gaussian noise",
    "mimic": "Mimic",
    "neurotoxin": "Neurotoxin",
    "hidra": "HIDRA",
    "oracle": "Oracle",
    "edge": "Edge-case backdoor",
}

ESTIMATORS = {
    "mean": "Mean",
    "median": "Median",
    "trimmed-mean": "Trimmed mean",
    "mea-med": "Mean around median",
    "krum": "Krum",
    "multi-krum": "Multi-Krum",
    "bulyan": "Bulyan",
    "geometric-median": "Geometric median",
    "centered-clipping": "Centerd clipping",
    "filter-l2": "FilterL2",
    "no-regret": "No-regret filter",
    "mda": "MDA",
    "smea": "SMEA",
    "mo-nna": "MoNNA",
    "dnc": "DnC",
    "sections": "Sections",
    "nnm": "NNM",
    "bucketing": "Bucketing",
    "clipping": "Clipping",
    "arc": "ARC",
}

STAGES = {
    "train": "training",
    "attack": "attacking",
    "protect": "clients mask",
    "sum": "server sums",
    "estimate": "robust mean",
    "evaluate": "evaluating",
}


def attack_title(kind: str) -> str:
    """Return the attack's name; what is not known keeps the name it has."""
    return ATTACKS.get(kind, kind)


def estimator_title(name: str) -> str:
    """Return the estimator's name; `outer + inner` is a rule around another."""
    return " + ".join(ESTIMATORS.get(part, part) for part in name.split(" + "))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten tables to dotted paths, and values to short text."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flat(value, f"{path}.")
        else:
            found[path] = f"{value:g}" if isinstance(value, float) else str(value)
    return found
