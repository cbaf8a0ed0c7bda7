"""What one opening costs a client, alike for the server that tells it and for the client that keeps a budget."""

from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.dp.accountant import rho
from f2ed.protocol.secagg import Terms

__all__ = ["loss"]


def loss(terms: Terms, *, coordinates: int, survivors: int) -> float | None:
    """Return the zCDP rho of a sum of so many updates, by the noise of those who do not help the server; None without.

    A client that does not know yet who will survive reckons with the fewest, `terms.min_crowd`.
    """
    if not terms.noise:
        return None
    encoding = agreed_encoding(terms, coordinates)
    # In the clear the server sees each update with its own noise alone.
    honest = 1 if terms.mode == "clear" else max(1, survivors - terms.colluders)
    return rho(
        sensitivity=encoding.sensitivity(coordinates),
        deviation=encoding.deviation,
        honest=honest,
        coordinates=coordinates,
    )
