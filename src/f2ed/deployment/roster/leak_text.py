"""What a signing does to the groups and to what their sums reveal, in words, for the authority."""

from collections.abc import Iterator

from f2ed.deployment.roster.groups import leak_bound, leak_of
from f2ed.deployment.roster.regroup import Option
from f2ed.deployment.roster.roster import Roster

__all__ = ["group_lines"]

_WORST = 10


def group_lines(before: Roster, after: Roster, others: list[Option]) -> Iterator[str]:
    """Yield what happens to the groups, whom their sums say most about, and what else could be done for who waits."""
    kept = [group for group in after.groups if group in before.groups]
    ended = [group for group in after.history if group not in before.history]
    made = len(after.groups) - len(kept)
    if made or ended:
        yield f"  groups: {len(kept)} kept, {made} new, {len(ended)} ended"
        yield from _leak_lines(before, after)
    if after.waiting:
        names = [entry.name for entry in after.clients if entry.id in set(after.waiting)]
        yield f"  {len(names)} clients wait and take no part: {_some(names)}. What the rules say to each way out:"
        yield from (f"    {option}" for option in others)


def _leak_lines(before: Roster, after: Roster) -> Iterator[str]:
    """Yield the worst leverages."""
    earlier, now = leak_of(before), leak_of(after)
    names = {entry.id: entry.name for entry in after.clients}
    names |= {left.id: f"{left.name}, who left" for left in after.gone}
    yield (
        "  leverage, the share of a client's update that all sums over groups together determine, before and after "
        f"(at most {leak_bound(after):.2f} without accepting the risk leak):"
    )
    for client in sorted(now, key=lambda each: (-now[each], each))[:_WORST]:
        yield f"    {earlier.get(client, 0.0):.2f} → {now[client]:.2f}  {names[client]}"


def _some(names: list[str]) -> str:
    """Name the first few."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
