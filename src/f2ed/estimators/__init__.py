"""Robust means: each takes rows [n, d] and returns an `Estimate`.

To add one, write a frozen struct in its own file and add it to `AnyEstimator`: that union is the registry, the schema
of experiment files and the parameter list of the shared tests.
"""

from f2ed.estimators._linalg.gram import GramStream, squared_distances
from f2ed.estimators._linalg.rows import Matrix, Rows
from f2ed.estimators._linalg.spectrum import Spread, widest
from f2ed.estimators.align_ins import AlignIns
from f2ed.estimators.base import Estimate, Estimator
from f2ed.estimators.bounded import BoundedEstimator
from f2ed.estimators.bucketing import Bucketing
from f2ed.estimators.bulyan import Bulyan
from f2ed.estimators.centered_clipping import CenteredClipping
from f2ed.estimators.clipping import ARC, Clipping, MedianClipping
from f2ed.estimators.dnc import DnC
from f2ed.estimators.dual_filter import DualFilter
from f2ed.estimators.fence import Fence
from f2ed.estimators.filter_l2 import FilterL2
from f2ed.estimators.geometric_median import GeometricMedian
from f2ed.estimators.gram_rule import GramRule, RowWeights, uniform
from f2ed.estimators.hard_weights import HardWeights
from f2ed.estimators.krum import Krum, MultiKrum, krum_scores
from f2ed.estimators.mda import MDA
from f2ed.estimators.mea_med import MeaMed
from f2ed.estimators.mean import Mean
from f2ed.estimators.median import Median
from f2ed.estimators.mo_nna import MoNNA
from f2ed.estimators.nnm import NNM
from f2ed.estimators.no_regret import NoRegret
from f2ed.estimators.reputation import Reputation
from f2ed.estimators.resilience import Resilience
from f2ed.estimators.root_veto import RootVeto
from f2ed.estimators.sections import Sections
from f2ed.estimators.sign_vote import SignVote
from f2ed.estimators.smea import SMEA
from f2ed.estimators.trimmed_mean import TrimmedMean

__all__ = [
    "ARC",
    "MDA",
    "NNM",
    "SMEA",
    "AlignIns",
    "AnyEstimator",
    "BoundedEstimator",
    "Bucketing",
    "Bulyan",
    "CenteredClipping",
    "Clipping",
    "DnC",
    "DualFilter",
    "Estimate",
    "Estimator",
    "Fence",
    "FilterL2",
    "GeometricMedian",
    "GramRule",
    "GramStream",
    "HardWeights",
    "Krum",
    "Matrix",
    "MeaMed",
    "Mean",
    "Median",
    "MedianClipping",
    "MoNNA",
    "MultiKrum",
    "NoRegret",
    "Reputation",
    "Resilience",
    "RootVeto",
    "RowWeights",
    "Rows",
    "Sections",
    "SignVote",
    "Spread",
    "TrimmedMean",
    "krum_scores",
    "squared_distances",
    "uniform",
    "widest",
]

AnyEstimator = (
    Mean
    | Median
    | TrimmedMean
    | MeaMed
    | Krum
    | MultiKrum
    | Bulyan
    | GeometricMedian
    | CenteredClipping
    | FilterL2
    | DualFilter
    | Fence
    | NoRegret
    | MDA
    | SMEA
    | Resilience
    | MoNNA
    | DnC
    | Sections
    | NNM
    | Bucketing
    | Clipping
    | ARC
    | MedianClipping
    | HardWeights
    | SignVote
    | AlignIns
    | RootVeto
    | Reputation
)
