"""The part of `f2ed plan` about helpers."""

import sys

import msgspec
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from f2ed.guarantees import HelpersPlan, plan_helpers
from f2ed.protocol.helpers import Guard, HelpersProtocol

__all__ = ["show_helpers_plan"]


def show_helpers_plan(
    *, clients: int, malicious: int, min_crowd: int | None, guard: Guard, group_size: int, rounds: int, json: bool
) -> bool:
    """Print what helpers guarantee; return whether they do."""
    settings = HelpersProtocol(guard=guard, size=group_size)
    found = plan_helpers(clients=clients, malicious=malicious, min_crowd=min_crowd, settings=settings, rounds=rounds)
    if json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n")
        return found.ok
    console = Console(highlight=False)
    console.print(_table(found))
    console.print(found.verdict, style="bold green" if found.ok else "bold red")
    for each in found.warnings:
        console.print(f"Warning: {each}", style="bold yellow")
    for reason in found.why:
        console.print(Padding(reason, (0, 0, 0, 2)))
    return found.ok


def _table(found: HelpersPlan) -> Table:
    head = f"{found.clients} clients, {found.malicious} of them malicious, with a mixer and a judge"
    table = Table(title=head, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_column("meaning")
    holds = "holds: theorem" if found.region == "theorem" else "does not hold"
    table.add_row("malicious clients tolerated", str(found.tolerated), f"12·m < n {holds}")
    table.add_row("crowd", str(found.expected_crowd), "if as many clients are rejected as are malicious")
    table.add_row("… if twice as many are rejected", str(found.worst_crowd), f"at least {found.min_crowd} is demanded")
    table.add_row("group, over all rounds", str(found.group), f"cosine of at most {found.cosine:.2f} with a client")
    away = f"cosine after {found.rounds} rounds, if one client in 20 is away"
    table.add_row("… recovered", f"{found.recovered:.2f}", away)
    table.add_row(
        "recommended rule", found.rule_title, f"groups of {found.rule_size}: a sum of {found.rule_crowd} or more"
    )
    table.add_row("upload", f"{found.bytes_per_parameter} B", "for each parameter; 4 B with shards")
    return table
