"""The part of `f2ed plan` about noise: what it buys and what it costs, in plain words."""

from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from f2ed.core.errors import ConfigError
from f2ed.guarantees import Guarantee
from f2ed.protocol.aggregation import Price, Protocol, price
from f2ed.protocol.dp.accountant import multiplier_for
from f2ed.protocol.dp.noise import Noise
from f2ed.protocol.quantization.encoding import Encoding

__all__ = ["Offer", "offer", "show_offer"]


class Offer(NamedTuple):
    """What noise would come to: the noise that was asked for, and the noise that an epsilon would take."""

    asked: Price | None
    needed: Price | None
    epsilon: float | None
    malicious: int


def offer(
    choice: Guarantee,
    *,
    noise: float | None,
    epsilon: float | None,
    delta: float,
    rounds: int,
    dimension: int,
    protocol: Protocol,
) -> Offer:
    """Work out the price for the shards that were chosen; everything is told as a multiple of the L2 clip."""
    if dimension < 1:
        raise ConfigError(f"--dimension {dimension}: an update has at least one coordinate")

    def at(multiplier: float) -> Price:
        return price(
            Noise(multiplier=multiplier, delta=delta),
            Encoding(1.0, 1.0),
            coordinates=dimension,
            members=choice.crowd,
            shards=choice.shards,
            rounds=rounds,
            protocol=protocol,
            helpers=min(choice.malicious, choice.crowd - 1),
        )

    needed = None if epsilon is None else at(multiplier_for(epsilon, delta=delta, openings=rounds))
    return Offer(None if noise is None else at(noise), needed, epsilon, choice.malicious)


def show_offer(found: Offer, console: Console) -> None:
    """Print what the noise is, what epsilon it gives and what it costs."""
    if found.asked is not None:
        console.print(_table(found.asked))
        console.print(_verdict(found.asked), style="bold")
        _explain(found.asked, found.malicious, console)
    if found.needed is not None:
        needed = found.needed
        wanted = f"For epsilon {found.epsilon:g} after {_rounds(needed.rounds)}: --noise {needed.multiplier:.3g}."
        length = f"noise of {needed.overall_norm:.3g} times the clip of an update"
        console.print(f"{wanted} The mean of all shards then has {length}.", style="bold")
        if found.asked is None:
            _explain(needed, found.malicious, console)


def _table(cost: Price) -> Table:
    title = f"Noise of {cost.multiplier:g} times the L2 clip in every sum, {cost.coordinates:,} coordinates"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("noise, as a multiple of the clip")
    table.add_column("each coordinate", justify="right")
    table.add_column("its length", justify="right")
    root = cost.coordinates**0.5
    rows = (
        ("added by each client", cost.client),
        ("in the mean of a shard", cost.shard),
        ("in the mean of all shards", cost.overall),
        ("… a trusted server would need (central DP)", cost.central),
    )
    for what, deviation in rows:
        table.add_row(what, f"{deviation:.3g}", f"{deviation * root:.3g}")
    table.add_section()
    table.add_row("epsilon of one round", f"{cost.once:.3g}", "")
    table.add_row(f"epsilon after {_rounds(cost.rounds)}", f"{cost.epsilon:.3g}", "")
    if cost.members > cost.carriers:
        table.add_row("… if nobody drops out", f"{cost.epsilon_all:.3g}", "")
    if cost.helpers:
        table.add_row(f"… if {cost.helpers} malicious sit beside it and help", f"{cost.epsilon_helped:.3g}", "")
    return table


def _verdict(cost: Price) -> str:
    worth = "a strong promise" if cost.epsilon <= 1 else "a promise of some worth"
    if cost.epsilon > 10:
        worth = "no promise to speak of: below 10 is usual, below 1 is strong"
    return f"Epsilon {cost.epsilon:.3g} at delta {cost.delta:g} after {_rounds(cost.rounds)} is {worth}."


def _explain(cost: Price, malicious: int, console: Console) -> None:
    least, shards, spare = cost.carriers, cost.shards, (cost.members / cost.carriers) ** 0.5
    drop_outs = f", times {spare:.2g} because drop-outs are allowed for" if cost.members > least else ""
    scope = (
        "It holds for all data of one client together, against a server that sees the mean of its shard in every one "
        "of these rounds; a round in which the shard stays closed costs nothing."
    )
    sharing = (
        f"The smallest sum that may be opened has {least} members who add noise, and each adds 1/√{least} of it, so "
        "that drop-outs take none of the promise. Members who help the server do: their noise hides nobody."
    )
    roots = (
        f"Every shard needs noise of its own, so the mean of all {shards} carries {cost.overall / cost.central:.2g} "
        f"times what a trusted server would add (√{shards} = {shards**0.5:.2g}{drop_outs}): the price for trusting "
        "nobody. Fewer shards and more clients make it smaller."
    )
    for line in (scope, sharing, roots, *_blinds(cost, malicious)):
        console.print(Padding(line, (0, 0, 0, 2)))


def _blinds(cost: Price, malicious: int) -> list[str]:
    """Say from which noise on the largest eigenvalue of shard means is the noise's, and no longer the attackers'.

    Rows of noise of length L have it at L²/p; a share e of them shifted by t add e(1 - e)t². Within the clip, t is
    at most 2/s clips.
    """
    share = min(0.5, malicious / cost.shards)
    limit = 2 * (share * (1 - share) * cost.shards / cost.coordinates) ** 0.5
    if not share:
        return []
    seen = (
        f"Noise above {limit:.2g} hides attackers who keep to the clip from FilterL2, since their shards stand out less"
    )
    return [f"{seen} than the noise does. {_BLIND if cost.multiplier > limit else _SEES}"]


_BLIND = "This is above: what bounds them is the clip alone."
_SEES = "This is below."


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"{count} rounds"
