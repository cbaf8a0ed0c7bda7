"""Privacy attacks by an honest-but-curious server on the shard means it sees (extra `train`).

The attacks see what a run shows the server and nothing else: shard means, shard members and the models.
"""

from f2ed.audit.disaggregation import Disaggregator
from f2ed.audit.findings import Finding, Interval
from f2ed.audit.gradient_matching import GradientMatching
from f2ed.audit.inversion import invert
from f2ed.audit.label_inference import infer_labels
from f2ed.audit.membership import auc, loss_scores, span_scores, true_positive_rate
from f2ed.audit.server_view import ServerView, draw_shard, opened_mean, view_of

__all__ = [
    "Disaggregator",
    "Finding",
    "GradientMatching",
    "Interval",
    "ServerView",
    "auc",
    "draw_shard",
    "infer_labels",
    "invert",
    "loss_scores",
    "opened_mean",
    "span_scores",
    "true_positive_rate",
    "view_of",
]
