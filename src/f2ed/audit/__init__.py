"""What an honest but curious server could learn from the shard means it sees (extra `train`).

Attacks here see what a run shows the server and nothing else: means of shards, who was in them, and the models.
"""

from f2ed.audit.disaggregation import Disaggregator
from f2ed.audit.findings import Finding, Interval
from f2ed.audit.gradient_matching import GradientMatching
from f2ed.audit.inversion import invert
from f2ed.audit.label_inference import infer_labels
from f2ed.audit.membership import area, caught, loss_scores, span_scores
from f2ed.audit.server_view import View, draw, opened_mean, view_of

__all__ = [
    "Disaggregator",
    "Finding",
    "GradientMatching",
    "Interval",
    "View",
    "area",
    "caught",
    "draw",
    "infer_labels",
    "invert",
    "loss_scores",
    "opened_mean",
    "span_scores",
    "view_of",
]
