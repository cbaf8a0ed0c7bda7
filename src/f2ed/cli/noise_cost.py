"""The part of `f2ed plan` about differential privacy: the epsilon that noise buys, and how large the noise is."""

from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from f2ed.core.errors import ConfigError
from f2ed.guarantees import Guarantee
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.dp import Noise, NoiseCost, noise_cost, noise_multiplier_for
from f2ed.protocol.quantization.encoding import Encoding
from f2ed.records.grading import MAX_DP_EPSILON, STRONG_DP_EPSILON, grade_dp

__all__ = ["NoiseCosts", "noise_costs", "show_noise_costs"]


class NoiseCosts(NamedTuple):
    """The cost of the noise asked for, and of the noise that a target epsilon needs."""

    asked: NoiseCost | None
    needed: NoiseCost | None
    dp_epsilon: float | None
    malicious: int


def noise_costs(
    choice: Guarantee,
    *,
    noise_multiplier: float | None,
    dp_epsilon: float | None,
    delta: float,
    rounds: int,
    dimension: int,
    protocol: Protocol,
) -> NoiseCosts:
    """Compute the costs for the chosen shards; everything is a multiple of the clip norm."""
    if dimension < 1:
        raise ConfigError(f"--dimension {dimension}: an update has at least one coordinate")

    def at(multiplier: float) -> NoiseCost:
        return noise_cost(
            Noise(noise_multiplier=multiplier, delta=delta),
            Encoding(1.0, 1.0),
            coordinates=dimension,
            members=choice.crowd,
            carriers=protocol.carriers_for(choice.crowd),
            shards=choice.shards,
            rounds=rounds,
            colluders=protocol.colluders,
            helpers=min(choice.malicious, choice.crowd - 1),
        )

    needed = None if dp_epsilon is None else at(noise_multiplier_for(dp_epsilon, delta=delta, openings=rounds))
    asked = None if noise_multiplier is None else at(noise_multiplier)
    return NoiseCosts(asked, needed, dp_epsilon, choice.malicious)


def show_noise_costs(found: NoiseCosts, console: Console) -> None:
    """Print how large the noise is, which epsilon it buys and what it costs."""
    if found.asked is not None:
        console.print(_table(found.asked))
        console.print(_verdict(found.asked), style="bold")
        _explain(found.asked, found.malicious, console)
    if found.needed is not None:
        needed = found.needed
        target = f"For epsilon {found.dp_epsilon:g} after {_rounds(needed.rounds)}"
        norm = f"noise of norm {needed.mean_norm:.3g} times the clip norm"
        console.print(
            f"{target}: --noise-multiplier {needed.noise_multiplier:.3g}. The mean of all shards then carries {norm}.",
            style="bold",
        )
        if found.asked is None:
            _explain(needed, found.malicious, console)


def _table(cost: NoiseCost) -> Table:
    title = f"Noise multiplier {cost.noise_multiplier:g}, {cost.coordinates:,} coordinates"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("noise, as a multiple of the clip norm")
    table.add_column("per coordinate", justify="right")
    table.add_column("norm", justify="right")
    root = cost.coordinates**0.5
    rows = (
        ("added by each client", cost.client_deviation),
        ("in the mean of a shard", cost.shard_deviation),
        ("in the mean of all shards", cost.mean_deviation),
        ("… if a trusted server added it (central DP)", cost.central_deviation),
    )
    for what, deviation in rows:
        table.add_row(what, f"{deviation:.3g}", f"{deviation * root:.3g}")
    table.add_section()
    table.add_row("epsilon of one round", f"{cost.dp_epsilon_round:.3g}", "")
    table.add_row(f"epsilon after {_rounds(cost.rounds)}", f"{cost.dp_epsilon:.3g}", "")
    if cost.members > cost.carriers:
        table.add_row("… if nobody drops out", f"{cost.dp_epsilon_full:.3g}", "")
    if cost.helpers:
        table.add_row(f"… if {cost.helpers} malicious members help the server", f"{cost.dp_epsilon_helped:.3g}", "")
    return table


def _verdict(cost: NoiseCost) -> str:
    worth = {
        "strong": "a strong guarantee",
        "moderate": "a moderate guarantee",
        "weak": f"no meaningful guarantee: below {MAX_DP_EPSILON:g} is usual, below {STRONG_DP_EPSILON:g} is strong",
    }[grade_dp(cost.dp_epsilon)]
    return f"Epsilon {cost.dp_epsilon:.3g} at delta {cost.delta:g} after {_rounds(cost.rounds)} is {worth}."


def _explain(cost: NoiseCost, malicious: int, console: Console) -> None:
    carriers, shards, spare = cost.carriers, cost.shards, (cost.members / cost.carriers) ** 0.5
    dropouts = f", times {spare:.2g} to allow for dropouts" if cost.members > carriers else ""
    scope = (
        "It covers all data of one client together, against a server that sees the mean of the client's shard in each "
        "of these rounds; a round in which the shard stays closed costs nothing."
    )
    sharing = (
        f"The smallest sum that may be opened has {carriers} members who add noise, and each adds 1/√{carriers} of it, "
        "so dropouts do not weaken the guarantee. Members who help the server do: their noise hides nobody."
    )
    roots = (
        f"Each shard needs its own noise, so the mean of all {shards} carries "
        f"{cost.mean_deviation / cost.central_deviation:.2g} times what a trusted server would add "
        f"(√{shards} = {shards**0.5:.2g}{dropouts}): the cost of trusting nobody. Fewer shards and more clients reduce "
        "it."
    )
    for line in (scope, sharing, roots, *_hidden_attackers(cost, malicious)):
        console.print(Padding(line, (0, 0, 0, 2)))


def _hidden_attackers(cost: NoiseCost, malicious: int) -> list[str]:
    """Return above which noise the largest eigenvalue of the shard means is the noise's and not the attackers'.

    Rows of noise of norm L have it at L²/p; a share e of them shifted by t adds e(1 - e)t². Within the clip norm, t is
    at most 2/s of it.
    """
    share = min(0.5, malicious / cost.shards)
    limit = 2 * (share * (1 - share) * cost.shards / cost.coordinates) ** 0.5
    if not share:
        return []
    hides = f"Noise above {limit:.2g} hides attackers that stay within the clip norm from FilterL2"
    above = cost.noise_multiplier > limit
    verdict = "This noise is above: only the clip bounds them." if above else "This noise is below."
    return [f"{hides}: it outweighs the variance their shards add. {verdict}"]


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"
