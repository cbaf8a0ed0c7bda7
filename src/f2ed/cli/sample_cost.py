"""What `f2ed plan` says about rounds in which not all clients take part."""

from rich.console import Console
from rich.padding import Padding

from f2ed.guarantees import SamplePlan

__all__ = ["show_sample"]


def show_sample(found: SamplePlan, console: Console) -> None:
    """Print what a sample may hold, which the plan below is for."""
    console.print(
        f"{found.clients_per_round} of {found.clients} clients in each of {found.rounds} rounds", style="bold"
    )
    share = found.malicious / found.clients
    assumed = found.assumed / found.clients_per_round
    for line in (
        f"{found.malicious} malicious clients are {share:.1%} of all, and {found.expected:.3g} of a sample on average",
        f"at most {found.assumed} ({assumed:.1%}) in every round, but for a chance of 1%: the plan assumes this many",
        f"a client takes part in {found.share:.1%} of the rounds, about {found.share * found.rounds:.3g} of them",
    ):
        console.print(Padding(line, (0, 0, 0, 2)))
