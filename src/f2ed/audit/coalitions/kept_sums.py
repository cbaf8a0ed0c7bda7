"""Single clients from the sums of many rounds, if a lying server holds the model still.

The sums are those of `f2ed.guarantees.kept_sets`, the updates real ones.
"""

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from f2ed.audit.coalitions.cohort import Vectors
from f2ed.audit.disaggregation import cosines
from f2ed.protocol.helpers import HelpersProtocol, Terms
from f2ed.protocol.helpers.settings import fixed_groups
from f2ed.protocol.sharding import ClientId

__all__ = ["cosines_from_sums", "with_guard"]


def with_guard(terms: Terms, settings: HelpersProtocol) -> Terms:
    """Return the terms with the guard of these settings."""
    nested = settings.guard == "nested"
    groups = () if nested else fixed_groups(terms.members, settings.size)
    return replace(terms, groups=groups, step=settings.size if nested else 0, epoch_rounds=settings.epoch)


def cosines_from_sums(sums: list[tuple[ClientId, ...]], updates: Vectors) -> Vectors:
    """Return the cosine of each client's update with its least-squares solution, both less the mean of all."""
    own = updates - updates.mean(axis=0)
    members: NDArray[np.float64] = np.zeros((len(sums), len(own)))
    for row, some in zip(members, sums, strict=True):
        row[list(some)] = 1 / len(some)
    return cosines(own, np.linalg.pinv(members, rcond=1e-6) @ (members @ own))
