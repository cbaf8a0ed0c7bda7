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
from f2ed.cli.plan_helpers import show_helpers_plan
from f2ed.cli.sample_cost import show_sample
from f2ed.core.errors import ConfigError
from f2ed.guarantees import (
    Guarantee,
    SamplePlan,
    ScheduleLeak,
    ShardPlan,
    contamination,
    forecast_leak,
    plan_sample,
    plan_shards,
    safe_k,
    smallest_k,
)
from f2ed.guarantees.plan_text import percent
from f2ed.protocol.aggregation import Protocol
from f2ed.protocol.helpers import Guard
from f2ed.protocol.secagg import MaskedMode, scheme_of
from f2ed.protocol.sharding import Batches, EveryKRounds, EveryRound, Fixed, Schedule
from f2ed.records import text

__all__ = ["plan"]

_SCHEDULES = "fixed, every-round, every-k-rounds:K (or :auto) or batches:SIZE[:K]"
_MANY = 5000
"""Clients from which the leak forecast takes long enough to announce it."""


def plan(
    *,
    clients: Annotated[int, Parameter(help="Number of clients.")],
    malicious: Annotated[int, Parameter(help="Number of malicious clients to assume.")],
    min_crowd: Annotated[int | None, Parameter(help="Minimum number of clients whose mean the server may see.")] = None,
    shards: Annotated[int | None, Parameter(help="Judge this number of shards instead of choosing one.")] = None,
    clients_per_round: Annotated[
        int | None, Parameter(help="Number of clients drawn for each round, if not all take part.")
    ] = None,
    rounds: Annotated[
        int | None, Parameter(help="Also show what this many rounds reveal about single clients.")
    ] = None,
    schedule: Annotated[str, Parameter(help=f"When clients are resharded: {_SCHEDULES}.")] = "fixed",
    client_dropout: Annotated[float, Parameter(help="Probability that a client drops out of a round.")] = 0.0,
    mode: Annotated[
        MaskedMode | None, Parameter(help="Secure-aggregation mode; by default chosen by the shard size.")
    ] = None,
    noise_multiplier: Annotated[
        float | None, Parameter(help="Also show what this noise for differential privacy costs.")
    ] = None,
    dp_epsilon: Annotated[float | None, Parameter(help="Also show the noise that this epsilon needs.")] = None,
    delta: Annotated[float, Parameter(help="The delta at which epsilon is stated.")] = 1e-5,
    dimension: Annotated[int, Parameter(help="Number of model parameters, for the norm of the noise.")] = 100_000,
    protocol: Annotated[
        Literal["shards", "helpers"], Parameter(help="Hide updates in shards, or with a mixer and a judge.")
    ] = "shards",
    guard: Annotated[Guard, Parameter(help="With helpers: open sums of whole groups, or of nested sets.")] = "groups",
    group_size: Annotated[
        int, Parameter(help="With helpers: size of a group, or by how many nested sets shrink at least.")
    ] = 4,
    json: Annotated[bool, Parameter(negative="", help="Print JSON for a program to read.")] = False,
    strict: Annotated[
        bool, Parameter(negative="", help="Exit with status 1 if no guarantee holds or a client is exposed.")
    ] = False,
) -> None:
    """Choose the number of shards, or assess a given one.

    More shards tolerate more malicious clients; fewer shards hide each client in a larger crowd. The command shows
    which numbers give both, recommends one and explains why, or shows what would have to change. The exit status is
    0 whether or not a guarantee holds, unless --strict is given.

    Example: f2ed plan --clients 1000 --malicious 2 --min-crowd 8

    Example: f2ed plan --clients 100 --malicious 10 --shards 25

    Example: f2ed plan --clients 100 --malicious 2 --shards 25 --rounds 100 --schedule every-round

    Example: f2ed plan --clients 1000 --malicious 2 --shards 25 --rounds 100 --noise-multiplier 1 --dp-epsilon 8

    Example: f2ed plan --protocol helpers --clients 100 --malicious 8

    Example: f2ed plan --clients 10000 --malicious 20 --clients-per-round 500 --min-crowd 5 --rounds 100
    """
    if protocol == "helpers":
        others = (shards, noise_multiplier, dp_epsilon, clients_per_round)
        if any(each is not None for each in others):
            raise ConfigError("--protocol helpers has no shards, samples or noise; leave out what is about them")
        ok = show_helpers_plan(
            clients=clients,
            malicious=malicious,
            min_crowd=min_crowd,
            guard=guard,
            group_size=group_size,
            rounds=100 if rounds is None else rounds,
            json=json,
        )
        sys.exit(1 if strict and not ok else 0)
    if min_crowd is None and shards is None:
        raise ConfigError("nothing to plan for; give --min-crowd, or --shards to judge a number of them")
    wanted = _schedule(schedule)
    sample = None
    if clients_per_round is not None:
        sample = plan_sample(
            clients=clients, malicious=malicious, clients_per_round=clients_per_round, rounds=rounds or 1
        )
        clients, malicious = clients_per_round, sample.assumed
    advice = plan_shards(clients=clients, malicious=malicious, min_crowd=min_crowd, shards=shards)
    found = None
    if rounds is not None and advice.choice is not None:
        found = _leak(advice.choice, wanted, rounds, client_dropout, mode, sample)
    cost = None
    if (noise_multiplier is not None or dp_epsilon is not None) and advice.choice is not None:
        cost = noise_costs(
            advice.choice,
            noise_multiplier=noise_multiplier,
            dp_epsilon=dp_epsilon,
            delta=delta,
            rounds=rounds or 1,
            dimension=dimension,
            protocol=Protocol(mode=mode or "auto"),
        )
    if json:
        sys.stdout.write(_json(advice, found, cost, sample) + "\n")
    else:
        console = Console(highlight=False)
        if sample is not None:
            show_sample(sample, console)
        _show(advice, console)
        if found is not None:
            _show_leak(found, console)
        if cost is not None:
            show_noise_costs(cost, console)
    if strict and not (advice.ok and (found is None or not found.leaks)):
        sys.exit(1)


def _schedule(written: str) -> Schedule | Literal["auto"]:
    """Parse a schedule from the command line; "auto" is every-k-rounds with the k of the leak forecast."""
    name, *numbers = written.split(":")
    if name in ("fixed", "every-round") and not numbers:
        return Fixed() if name == "fixed" else EveryRound()
    if name == "every-k-rounds" and numbers == ["auto"]:
        return "auto"
    if all(number.isdecimal() and int(number) for number in numbers):
        if name == "every-k-rounds" and len(numbers) == 1:
            return EveryKRounds(*map(int, numbers))
        if name == "batches" and len(numbers) in (1, 2):
            return Batches(*map(int, numbers))
    raise ConfigError(f"--schedule {written}: there is no such schedule; use {_SCHEDULES}")


def _leak(
    choice: Guarantee,
    schedule: Schedule | Literal["auto"],
    rounds: int,
    client_dropout: float,
    mode: MaskedMode | None,
    sample: SamplePlan | None,
) -> ScheduleLeak:
    everyone = choice.clients if sample is None else sample.clients
    if everyone >= _MANY:
        Console(stderr=True).print(f"Computing what {rounds} rounds reveal; half a minute for 10,000 clients.")
    mode = mode or Protocol().mode_for(choice.crowd)
    setting: dict[str, Any] = {"clients": everyone, "shards": choice.shards, "rounds": rounds}
    setting |= {"client_dropout": client_dropout, "mode": mode}
    if sample is not None and sample.clients_per_round < everyone:
        if schedule == "auto":
            raise ConfigError("--schedule every-k-rounds:auto with --clients-per-round; state a number, or use fixed")
        setting["clients_per_round"] = sample.clients_per_round
    return forecast_leak(**setting, schedule=EveryKRounds(safe_k(**setting)) if schedule == "auto" else schedule)


def _show_leak(found: ScheduleLeak, console: Console) -> None:
    """Print what the rounds reveal, and what would prevent it."""
    console.print(_sentence(found), style="bold red" if found.leaks else "bold green")
    if isinstance(found.schedule, EveryKRounds):
        console.print(Padding(f"with resharding every {found.schedule.k} rounds", (0, 0, 0, 2)))
    if not found.leaks:
        return
    dropouts_leak = found.client_dropout and scheme_of(found.mode).tolerates_dropouts
    if dropouts_leak and isinstance(found.schedule, Fixed | Batches):
        why = "- dropouts open other sums of the same shard; all-or-nothing opens none"
        console.print(Padding(why, (0, 0, 0, 2)))
        return
    console.print("One of these changes would prevent it:")
    for change in _remedies(found):
        console.print(Padding(f"- --schedule {change}", (0, 0, 0, 2)))


def _remedies(found: ScheduleLeak) -> list[str]:
    if found.clients_per_round is not None:
        return ["fixed"]
    k = smallest_k(clients=found.clients, shards=found.shards, rounds=found.rounds)
    size = found.clients // found.shards
    every = [f"every-k-rounds:{k}"] if found.rounds > k else []
    batches = [f"batches:{size // 2}"] if size >= 4 else []
    return [*every, *batches, "fixed"]


def _sentence(found: ScheduleLeak) -> str:
    return text.leak(found.record(), rounds=found.rounds, clients=found.clients)


def _json(advice: ShardPlan, leak: ScheduleLeak | None, cost: NoiseCosts | None, sample: SamplePlan | None) -> str:
    """Return the plan as JSON, with the probability of each number of contaminated shards."""
    found = msgspec.to_builtins(advice)
    if advice.choice is not None:
        odds = contamination(clients=advice.clients, malicious=advice.malicious, shards=advice.choice.shards)
        found["choice"]["contaminated"] = {odds.first + i: chance for i, chance in enumerate(odds.probabilities)}
    if sample is not None:
        found["sample"] = msgspec.to_builtins(sample)
    if leak is not None:
        found["leak"] = msgspec.to_builtins(leak) | {"text": _sentence(leak)}
    if cost is not None:
        found["noise"] = msgspec.to_builtins(cost._asdict())
    return msgspec.json.format(msgspec.json.encode(found)).decode()


def _show(advice: ShardPlan, console: Console) -> None:
    if advice.choice is not None:
        console.print(_choice(advice, advice.choice))
    if advice.options and not (advice.judged and advice.ok):
        console.print(_options(advice))
    console.print(advice.verdict, style="bold green" if advice.ok else "bold red")
    for reason in advice.why:
        console.print(Padding(reason, (0, 0, 0, 2)))
    if advice.changes:
        console.print("One of these changes would do:" if len(advice.changes) > 1 else "This change would do:")
        for change in advice.changes:
            console.print(Padding(f"- {change.text}", (0, 0, 0, 2)))
    if advice.small:
        console.print(f"What {advice.clients} clients can have with shards:")
        for line in advice.small:
            console.print(Padding(f"- {line}", (0, 0, 0, 2)))


def _choice(advice: ShardPlan, choice: Guarantee) -> Table:
    head = f"{choice.clients} clients, {choice.malicious} of them malicious, in {choice.shards} shards"
    table = Table(title=head, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    condition = "12·m < p holds: theorem" if choice.holds else "12·m < p does not hold"
    crowd = "the server sees no smaller mean" if choice.crowd > 1 else "the server sees every update"
    if choice.crowd < advice.min_crowd:
        crowd = f"below the min_crowd of {advice.min_crowd}"
    likely = f"at most {choice.likely_contaminated} shards in 99% of cases"
    table.add_row("malicious clients tolerated", str(choice.tolerated), condition)
    table.add_row("… by the paper's ⌊p/12⌋ - 1", str(choice.tolerated_in_paper), "")
    table.add_row("spare shards", str(choice.spare_shards), "may stay closed in a round")
    table.add_row("crowd", str(choice.crowd), crowd)
    table.add_row("… if attackers help the server", str(choice.honest_crowd), "and all share one shard")
    table.add_row("contaminated shards, worst case", f"{choice.worst_share:.1%}", choice.region)
    table.add_row("contaminated shards, random", f"{choice.expected_share:.1%}", likely)
    table.add_row("… probability of fewer than 1/12", percent(choice.chance_of_theorem), "")
    table.add_row("… probability of fewer than 1/2", percent(choice.chance_of_minority), "")
    table.add_row("all companions malicious", percent(choice.chance_surrounded), "probability for an honest client")
    return table


def _options(advice: ShardPlan) -> Table:
    title = f"Feasible: {advice.lowest} to {advice.highest} shards"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for column in ("shards", "crowd", "tolerates", "spare shards"):
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
