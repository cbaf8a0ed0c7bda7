"""The judge's decision: which rows are in range, which the rule keeps, and which of those the guard lets into the sum.

A pure function of the Gram matrix, so a run in the clear decides the same.
"""

from collections.abc import Sequence
from math import isqrt, sqrt
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from f2ed.core.errors import ConfigError, PeerError
from f2ed.estimators import AnyEstimator, Estimator
from f2ed.protocol.helpers.field import Elements, P, centered
from f2ed.protocol.helpers.guard import admit, fit
from f2ed.protocol.helpers.secret_rows import SecretRows, check_rule
from f2ed.protocol.helpers.terms import STEPS_PER_CLIP, Terms, encoding_of
from f2ed.protocol.sharding import ClientId

__all__ = ["TEST_BOUND", "Verdict", "decide", "diagonal_bound", "out_of_range", "read_rule", "rule_bytes"]

TEST_BOUND = isqrt(P) // 9
"""A test value beyond this is no honest client's; see the proof in `docs/helpers.md`."""
_STRAY = 10
"""Standard deviations that the squared length of a sketch may be from its mean."""
_ROUNDING = 1e-9


class Verdict(NamedTuple):
    """Who is summed, who has a strike, and the rule's diagnostics."""

    kept: tuple[ClientId, ...]
    """Nobody, if no sum may be opened; `stopped` says why."""
    struck: tuple[ClientId, ...]
    eigenvalue: float | None = None
    iterations: int = 0
    stopped: str = ""


def rule_bytes(estimator: Estimator) -> bytes:
    """Return a rule as the terms carry it."""
    check_rule(estimator)
    return msgspec.json.encode(estimator)


def read_rule(data: bytes) -> Estimator:
    """Read the rule of the terms; one that does not work on secret rows is refused by its name."""
    try:
        rule: Estimator = msgspec.json.decode(data, type=AnyEstimator)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigError(f"a rule that cannot be read: {error}") from None
    check_rule(rule)
    return rule


def diagonal_bound(terms: Terms) -> int:
    """Return the largest squared length of the sketch of an honest update, over all foldings."""
    return int(terms.foldings * STEPS_PER_CLIP**2 * (1 + _STRAY * sqrt(2 / terms.columns)))


def out_of_range(terms: Terms, gram: Elements, tests: Elements) -> npt.NDArray[np.bool_]:
    """Return which rows are too long: a test value beyond the bound, or a diagonal entry out of range."""
    lengths = centered(gram.diagonal().copy())
    failed = (lengths < 0) | (lengths > diagonal_bound(terms))
    return np.asarray(failed | (np.abs(centered(tests)) > TEST_BOUND).any(axis=1))


def decide(
    terms: Terms,
    clients: Sequence[ClientId],
    gram: Elements,
    tests: Elements,
    before: Sequence[ClientId] | None,
) -> Verdict:
    """Return the verdict on rows with this Gram matrix [n, n], of which one triangle counts; or raise `PeerError`.

    Clients that are out of range get their strikes also where no sum may be opened. Otherwise as many as leave too few
    for the crowd would end every round, and nobody would know who they are.
    """
    full = np.triu(gram) + np.triu(gram, 1).T
    failed = out_of_range(terms, full, tests)
    rows = [int(row) for row in np.flatnonzero(~failed)]
    struck = tuple(clients[row] for row in map(int, np.flatnonzero(failed)))
    try:
        return _chosen(terms, clients, full, rows, before)._replace(struck=struck)
    except PeerError as error:
        if not struck:
            raise
        return Verdict((), struck, stopped=str(error)[:200])


def _chosen(
    terms: Terms,
    clients: Sequence[ClientId],
    full: Elements,
    rows: Sequence[int],
    before: Sequence[ClientId] | None,
) -> Verdict:
    """Return whom the rule and the guard keep of the rows that are in range, or raise `PeerError`."""
    if len(rows) < terms.crowd:
        raise PeerError(f"{len(rows)} of {len(clients)} clients are in range; the policy demands {terms.crowd}")
    exact = centered(full[np.ix_(rows, rows)]).astype(np.float64)
    _check_gram(exact)
    unit = encoding_of(terms).unit
    secret = SecretRows(
        exact * (unit * unit / terms.foldings), lambda _: np.zeros(0, np.float32), coordinates=terms.coordinates
    )
    try:
        found = read_rule(terms.rule).estimate(secret)
    except ConfigError as error:
        raise PeerError(f"the rule cannot use {len(rows)} rows: {error}") from None
    if secret.kept is None or secret.weights is None:
        raise PeerError("the rule opened no sum")
    wanted = {clients[rows[place]]: float(secret.weights[place]) for place in map(int, np.flatnonzero(secret.kept))}
    kept = fit(terms, before, wanted)
    admit(terms, clients, before, kept)
    return Verdict(kept, (), found.eigenvalue, found.iterations, found.stopped)


def _check_gram(exact: npt.NDArray[np.float64]) -> None:
    """Refuse a matrix that no rows have; after the check of the shares it cannot occur."""
    lengths = exact.diagonal()
    if (exact**2 > lengths[:, None] * lengths * (1 + _ROUNDING)).any():
        raise PeerError("a Gram matrix that violates the Cauchy-Schwarz inequality")
    values = np.linalg.eigvalsh(exact)
    if not np.isfinite(values).all() or values[0] < -1e-6 * max(1.0, values[-1]):
        raise PeerError("a Gram matrix with a negative eigenvalue")
