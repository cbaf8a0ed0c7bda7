"""`f2ed plan`: how many shards, and what they guarantee."""

import sys
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from f2ed.cli.noise_cost import NoiseCosts, noise_costs, show_noise_costs
from f2ed.core.errors import ConfigError
from f2ed.guarantees import Guarantee, ShardPlan, contamination, plan_shards
from f2ed.guarantees.leakage.forecast import Leak, leak, safe_k, smallest_k
from f2ed.guarantees.planner import percent
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed, Schedule

__all__ = ["plan"]

_SCHEDULES = "Who is dealt anew when: fixed, every-round, every-k-rounds:K (or :auto) or batches:SIZE[:K]."
_MANY = 5000
"""Clients from which the leak meter takes long enough to say so."""


def plan(
    *,
    clients: Annotated[int, Parameter(help="How many clients take part.")],
    malicious: Annotated[int, Parameter(help="How many of them you fear to be malicious.")],
    min_crowd: Annotated[int | None, Parameter(help="The fewest clients whose mean the server may see.")] = None,
    shards: Annotated[int | None, Parameter(help="Judge this number of shards instead of choosing one.")] = None,
    rounds: Annotated[
        int | None, Parameter(help="Also say what so many rounds give away about single clients.")
    ] = None,
    schedule: Annotated[str, Parameter(help=_SCHEDULES)] = "fixed",
    client_dropout: Annotated[float, Parameter(help="The chance of a client to be silent in a round.")] = 0.0,
    mode: Annotated[MaskedMode | None, Parameter(help="Of the protocol; chosen by the size of a shard.")] = None,
    noise_multiplier: Annotated[
        float | None, Parameter(help="Also show what this noise for differential privacy costs.")
    ] = None,
    dp_epsilon: Annotated[float | None, Parameter(help="Also show the noise that this epsilon needs.")] = None,
    delta: Annotated[float, Parameter(help="The delta at which epsilon is stated.")] = 1e-5,
    dimension: Annotated[int, Parameter(help="Number of model parameters, for the norm of the noise.")] = 100_000,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
    strict: Annotated[
        bool, Parameter(negative="", help="Exit with status 1 where no guarantee holds or someone is exposed.")
    ] = False,
) -> None:
    """Choose the number of shards, or judge one.

    More shards withstand more malicious clients; fewer shards hide each client among more. The command says
    which numbers give both, recommends one and says why, or says what would have to change. The exit status is
    0 whether or not a guarantee holds, unless --strict is given.

    Example: f2ed plan --clients 1000 --malicious 2 --min-crowd 8

    Example: f2ed plan --clients 100 --malicious 10 --shards 25

    Example: f2ed plan --clients 100 --malicious 2 --shards 25 --rounds 100 --schedule every-round

    Example: f2ed plan --clients 1000 --malicious 2 --shards 25 --rounds 100 --noise-multiplier 1 --dp-epsilon 8
    """
    wanted = _schedule(schedule)
    advice = plan_shards(clients=clients, malicious=malicious, min_crowd=min_crowd, shards=shards)
    found = None
    if rounds is not None and advice.choice is not None:
        found = _leak(advice.choice, wanted, rounds, client_dropout, mode)
    cost = None
    if (noise_multiplier is not None or dp_epsilon is not None) and advice.choice is not None:
        protocol = Protocol(mode=mode or "auto")
        cost = noise_costs(
            advice.choice,
            noise_multiplier=noise_multiplier,
            dp_epsilon=dp_epsilon,
            delta=delta,
            rounds=rounds or 1,
            dimension=dimension,
            protocol=protocol,
        )
    if json:
        sys.stdout.write(_json(advice, found, cost) + "\n")
    else:
        console = Console(highlight=False)
        _show(advice, console)
        if found is not None:
            _warn(found, console)
        if cost is not None:
            show_noise_costs(cost, console)
    if strict and not (advice.ok and (found is None or not found.leaks)):
        sys.exit(1)


def _schedule(text: str) -> Schedule | Literal["auto"]:
    """Read a schedule as it is written on a command line; "auto" is every-k-rounds with the k of the meter."""
    name, *numbers = text.split(":")
    if name in ("fixed", "every-round") and not numbers:
        return Fixed() if name == "fixed" else EveryRound()
    if name == "every-k-rounds" and numbers == ["auto"]:
        return "auto"
    if all(number.isdecimal() and int(number) for number in numbers):
        if name == "every-k-rounds" and len(numbers) == 1:
            return EveryKRounds(*map(int, numbers))
        if name == "batches" and len(numbers) in (1, 2):
            return Batches(*map(int, numbers))
    raise ConfigError(f"--schedule {text}: there is no such schedule; {_SCHEDULES}")


def _leak(
    choice: Guarantee, schedule: Schedule | Literal["auto"], rounds: int, client_dropout: float, mode: MaskedMode | None
) -> Leak:
    if choice.clients >= _MANY:
        Console(stderr=True).print(f"Working out what {rounds} rounds give away; half a minute for 10,000 clients.")
    mode = mode or Protocol().mode_for(choice.crowd)
    setting: dict[str, Any] = {"clients": choice.clients, "shards": choice.shards, "rounds": rounds}
    setting |= {"client_dropout": client_dropout, "mode": mode}
    return leak(**setting, schedule=EveryKRounds(safe_k(**setting)) if schedule == "auto" else schedule)


def _warn(found: Leak, console: Console) -> None:
    """Say what the rounds give away, and what would close it."""
    console.print(found.text, style="bold red" if found.leaks else "bold green")
    if isinstance(found.schedule, EveryKRounds):
        console.print(Padding(f"with a new deal every {found.schedule.k} rounds", (0, 0, 0, 2)))
    if not found.leaks:
        return
    if (
        found.client_dropout
        and scheme_of(found.mode).tolerates_dropouts
        and isinstance(found.schedule, Fixed | Batches)
    ):
        console.print(Padding("- dropouts open other sums of the same shard; all-or-nothing opens none", (0, 0, 0, 2)))
        return
    k = smallest_k(clients=found.clients, shards=found.shards, rounds=found.rounds)
    console.print("One of these changes would close it:")
    if found.rounds > k:
        console.print(Padding(f"- --schedule every-k-rounds:{k}", (0, 0, 0, 2)))
    size = found.clients // found.shards
    if size >= 4:
        console.print(Padding(f"- --schedule batches:{size // 2}", (0, 0, 0, 2)))
    console.print(Padding("- --schedule fixed", (0, 0, 0, 2)))


def _json(advice: ShardPlan, leaked: Leak | None, cost: NoiseCosts | None) -> str:
    """Return the advice as JSON, with the chance of each number of contaminated shards."""
    found = msgspec.to_builtins(advice)
    if advice.choice is not None:
        odds = contamination(clients=advice.clients, malicious=advice.malicious, shards=advice.choice.shards)
        found["choice"]["contaminated"] = {odds.fewest + i: chance for i, chance in enumerate(odds.chances)}
    if leaked is not None:
        found["leak"] = msgspec.to_builtins(leaked) | {"text": leaked.text}
    if cost is not None:
        found["noise"] = msgspec.to_builtins(cost._asdict())
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def _show(advice: ShardPlan, console: Console) -> None:
    if advice.choice is not None:
        console.print(_holdings(advice, advice.choice))
    if advice.options and not (advice.judged and advice.ok):
        console.print(_options(advice))
    console.print(advice.verdict, style="bold green" if advice.ok else "bold red")
    for reason in advice.why:
        console.print(Padding(reason, (0, 0, 0, 2)))
    if advice.changes:
        console.print("One of these changes would do:" if len(advice.changes) > 1 else "This would do:")
        for change in advice.changes:
            console.print(Padding(f"- {change.text}", (0, 0, 0, 2)))


def _holdings(advice: ShardPlan, choice: Guarantee) -> Table:
    head = f"{choice.clients} clients, {choice.malicious} of them malicious, in {choice.shards} shards"
    table = Table(title=head, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("what")
    table.add_column("found", justify="right")
    table.add_column("meaning")
    condition = "12·m < p holds: theorem" if choice.holds else "12·m < p is broken"
    crowd = "the server sees no smaller mean" if choice.crowd > 1 else "the server sees every update"
    if choice.crowd < advice.min_crowd:
        crowd = f"fewer than the {advice.min_crowd} wanted"
    table.add_row("malicious clients withstood", str(choice.tolerated), condition)
    table.add_row("… by the paper's ⌊p/12⌋ - 1", str(choice.tolerated_in_paper), "")
    table.add_row("shards that may stay closed", str(choice.spare_shards), "in a round, before that breaks")
    table.add_row("hidden among", str(choice.crowd), crowd)
    table.add_row("… if attackers help the server", str(choice.hidden_among_honest), "and all sit in one shard")
    table.add_row("shards spoilt, worst case", f"{choice.worst_share:.1%}", _region(choice))
    table.add_row("shards spoilt, random deal", f"{choice.expected_share:.1%}", _deal(choice))
    table.add_row("… fewer than 1/12, chance", percent(choice.chance_of_theorem), "")
    table.add_row("… fewer than 1/2, chance", percent(choice.chance_of_minority), "")
    table.add_row("surrounded by attackers", percent(choice.chance_surrounded), "an honest client, random deal")
    return table


def _region(choice: Guarantee) -> str:
    return {
        "theorem": "below 1/12: theorem",
        "experience": "below 1/2: experience only",
        "nothing": "1/2 or more: nothing can help",
    }[choice.region]


def _deal(choice: Guarantee) -> str:
    return f"at most {choice.likely_contaminated} shards in 99% of deals"


def _options(advice: ShardPlan) -> Table:
    title = f"Feasible: {advice.lowest} to {advice.highest} shards"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in ("shards", "hidden among", "withstands", "may stay closed"):
        table.add_column(column, justify="right")
    table.add_column("")
    for option in advice.options:
        chosen = option.shards == advice.recommended
        table.add_row(
            str(option.shards),
            str(option.crowd),
            str(option.tolerated),
            str(option.spare_shards),
            "recommended" if chosen else "",
            style="bold" if chosen else None,
        )
    return table
