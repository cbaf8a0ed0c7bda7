"""What 5 to 12 sites can have with shards: little, and exactly how much."""

from f2ed.guarantees.plan_text import count
from f2ed.guarantees.robustness import guarantee

__all__ = ["MOST_SITES", "small_consortium"]

MOST_SITES = 12
"""The theorem needs 13 shards against one attacker, so up to this many clients it covers none."""
_FEWEST = 2


def small_consortium(clients: int) -> tuple[str, ...]:
    """Return what each number of shards gives so few clients, and what would give more; empty for more clients."""
    if not _FEWEST <= clients <= MOST_SITES:
        return ()
    # An odd number of shards tolerates one attacker more than the even one before it; two shards are asked for often.
    numbers = sorted({1, 2} | set(range(3, clients // _FEWEST + 1, 2)))
    return (*(_line(clients, shards) for shards in numbers if shards <= clients // _FEWEST), *_MORE)


_MORE = (
    (
        "No number of shards gives so few clients the theorem, which needs 13 against one attacker: they choose "
        "between the crowd and robustness by experience."
    ),
    (
        "Both at once need another assumption: helper parties that do not collude with the server, so that every "
        "client counts by itself and is hidden among all."
    ),
)


def _line(clients: int, shards: int) -> str:
    crowd, minority = clients // shards, (shards - 1) // 2
    hidden = f"{shards} {'shard' if shards == 1 else 'shards'}: every update is hidden among {crowd}"
    if crowd == _FEWEST:
        hidden += ", so the other one and the server together see it"
    if not minority:
        return f"{hidden}; tolerates nobody."
    region = guarantee(clients=clients, malicious=minority, shards=shards).region
    return f"{hidden}; tolerates {count(minority)} by {region}, without a theorem."
