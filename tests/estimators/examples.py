"""One example of every estimator, for the shared tests, which fail if one is missing."""

from typing import get_args

import numpy as np
import torch

from f2ed import estimators as e

EXAMPLES = {
    e.Mean: e.Mean(),
    e.Median: e.Median(),
    e.TrimmedMean: e.TrimmedMean(0.2),
    e.MeaMed: e.MeaMed(0.2),
    e.Krum: e.Krum(0.2),
    e.MultiKrum: e.MultiKrum(0.2),
    e.Bulyan: e.Bulyan(0.2),
    e.GeometricMedian: e.GeometricMedian(),
    e.CenteredClipping: e.CenteredClipping(),
    e.FilterL2: e.FilterL2(0.2),
    e.DualFilter: e.DualFilter(0.2),
    e.Fence: e.Fence(contamination=0.2),
    e.NoRegret: e.NoRegret(0.2),
    e.MDA: e.MDA(0.2),
    e.SMEA: e.SMEA(0.2),
    e.Resilience: e.Resilience(contamination=0.2, flatten=(0.5,)),
    e.MoNNA: e.MoNNA(0.2),
    e.DnC: e.DnC(0.2),
    e.Sections: e.Sections(e.FilterL2(0.2), size=7),
    e.NNM: e.NNM(0.2, inner=e.TrimmedMean(0.2)),
    e.Bucketing: e.Bucketing(2, e.Median()),
    e.Clipping: e.Clipping(3.0, e.Median()),
    e.ARC: e.ARC(0.2, inner=e.FilterL2(0.2)),
    e.MedianClipping: e.MedianClipping(e.FilterL2(0.2)),
    e.HardWeights: e.HardWeights(e.FilterL2(0.2)),
    e.SignVote: e.SignVote(e.Fence(contamination=0.2)),
    e.AlignIns: e.AlignIns(),
    e.RootVeto: e.RootVeto(e.FilterL2(0.2)),
    e.Reputation: e.Reputation(e.FilterL2(0.2)),
}
MEMBERS = get_args(e.AnyEstimator)
ALL = list(EXAMPLES.values())
EXTRA = [
    e.FilterL2(0.2, sigma=0.5),
    e.FilterL2(0.2, sigma=0.5, variant="released"),
    e.Bulyan(0.2, e.Median()),
    e.Bulyan(0.2, e.TrimmedMean(0.2)),
    e.NNM(0.2, inner=e.FilterL2(0.2)),
    e.Sections(e.Median(), size=None, per_tensor=True),
    e.CenteredClipping(radius=2.0, iterations=3),
    e.Bucketing(2, e.FilterL2(0.2)),
    e.Fence(contamination=0.2, cut="trim", inner=e.GeometricMedian()),
    e.Fence(contamination=0.2, inner=e.DualFilter(0.2)),
    e.Fence(contamination=0.2, cut="nearest"),
    e.Fence(contamination=0.2, select=False),
    e.Fence(contamination=0.2, select="auto"),
    e.Fence(contamination=0.2, inner=e.HardWeights(e.FilterL2(0.2))),
    e.Fence(contamination=0.2, inner=e.Reputation(e.FilterL2(0.2))),
    e.SignVote(e.Median(), below="reverse"),
    e.Resilience(contamination=0.2, flatten=()),
]


def trusted(X):
    """Return an update that no row points away from, of the same type."""
    host = np.asarray(X.detach() if isinstance(X, torch.Tensor) else X)
    usable = host[(np.abs(host) < np.sqrt(np.finfo(host.dtype).max)).all(1)]  # False for NaN
    root = np.median(usable, 0) if len(usable) else np.zeros(host.shape[1], host.dtype)
    return torch.from_numpy(root) if isinstance(X, torch.Tensor) else root


def name(estimator):
    inner = getattr(estimator, "inner", None)
    return type(estimator).__name__ + (f"-{name(inner)}" if inner is not None else "")
