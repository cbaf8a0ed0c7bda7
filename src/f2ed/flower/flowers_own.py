"""Settings of Flower's own strategies that have no meaning here: refused by name, with the reason."""

from collections.abc import Iterable

from f2ed.core.errors import ConfigError

__all__ = ["refuse_others"]

_OF_FLOWER = {
    **dict.fromkeys(
        ("fraction_train", "min_train_nodes", "min_available_nodes"),
        "the roster says who takes part (f2ed roster sign --shards-per-round)",
    ),
    **dict.fromkeys(("fraction_evaluate", "min_evaluate_nodes"), "clients evaluate only where the roster allows it"),
    **dict.fromkeys(("weighted_by_key",), "weights are public and signed (f2ed roster sign --weight)"),
    **dict.fromkeys(("arrayrecord_key", "configrecord_key"), "the records are called arrays and config"),
    **dict.fromkeys(
        ("train_metrics_aggr_fn", "evaluate_metrics_aggr_fn"), "metrics of single clients do not leave the nodes"
    ),
}
"""Settings of Flower's own strategies that have no meaning here, and why."""


def refuse_others(names: Iterable[str]) -> None:
    """Raise `ConfigError` for the first of these settings, if there is one."""
    for name in names:
        why = _OF_FLOWER.get(name, "there is no such setting")
        raise ConfigError(f"F2ed takes no {name}: {why}; leave it out")
