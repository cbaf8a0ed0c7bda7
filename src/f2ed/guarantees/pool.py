"""The chance that new groups, drawn at random from a pool, leave a client outnumbered."""

from math import comb

from f2ed.core.errors import ConfigError

__all__ = ["outnumbered"]


def outnumbered(*, pool: int, malicious: int, size: int, hidden: int = 2) -> float:
    """Return the chance that a client's group of `size` holds fewer than `hidden` honest members, itself included.

    All malicious clients are taken to be in the pool: the fewer it holds, the likelier that they are among themselves
    with one honest client. Exact, by the hypergeometric distribution.
    """
    if not 1 <= size <= pool or malicious < 0 or hidden < 1:
        raise ConfigError(
            f"groups of {size} from a pool of {pool} with {malicious} malicious clients, to hide among {hidden}; use "
            f"groups of 1 to {pool}, 0 malicious clients or more, and 1 hidden or more"
        )
    others = pool - 1
    bad = min(malicious, others)
    ways = sum(
        comb(bad, count) * comb(others - bad, size - 1 - count)
        for count in range(max(0, size - hidden + 1), min(bad, size - 1) + 1)
    )
    return ways / comb(others, size - 1)
