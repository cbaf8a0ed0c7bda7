"""What the sums that a server opens over many rounds determine about single clients."""

from f2ed.guarantees.leakage.exposure import Exposure, Meter, exposure
from f2ed.guarantees.leakage.forecast import Leak, leak, recovered_cosine, safe_k, smallest_k

__all__ = ["Exposure", "Leak", "Meter", "exposure", "leak", "recovered_cosine", "safe_k", "smallest_k"]
