"""All-or-nothing: keys once per epoch, one message per round, no shares that could be revealed.

A missing member leaves the sum closed for good, which is why lies about dropouts, split views and differences
of sums gain nothing.
"""

from f2ed.protocol.secagg.schemes.all_or_nothing.server import AllOrNothing

__all__ = ["AllOrNothing"]
