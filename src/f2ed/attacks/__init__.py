"""Malicious clients: each attack defines how they train, what they send and what they want to achieve.

To add one, write a frozen struct in its own file and add it to `AnyAttack`: that union is the registry, the schema of
experiment files and the parameter list of the shared tests.
"""

from f2ed.attacks._common.goal import EvaluationData, Examples, Goal, Palette, Success
from f2ed.attacks._common.scene import Scene
from f2ed.attacks._common.training import NO_OVERRIDES, MaliciousClients, ProximalTerm, Slopes, Train, TrainingOverrides
from f2ed.attacks._common.triggers import Bars, Square
from f2ed.attacks._common.view import AttackerView, Knowledge
from f2ed.attacks.a3fl import A3FL
from f2ed.attacks.adaptive_backdoor import AdaptiveBackdoor
from f2ed.attacks.alie import ALIE
from f2ed.attacks.base import Attack, Variant
from f2ed.attacks.chameleon import Chameleon
from f2ed.attacks.dba import DBA
from f2ed.attacks.edge import Edge
from f2ed.attacks.edge_case import EdgeCase
from f2ed.attacks.gaussian import Gaussian
from f2ed.attacks.hidra import HIDRA
from f2ed.attacks.iba import IBA
from f2ed.attacks.ipm import IPM
from f2ed.attacks.krum_attack import KrumAttack
from f2ed.attacks.label_flip import LabelFlip
from f2ed.attacks.mimic import Mimic, StretchedMimic
from f2ed.attacks.min_max import MinMax, MinSum
from f2ed.attacks.model_poisoning import ModelPoisoning
from f2ed.attacks.model_replacement import ModelReplacement
from f2ed.attacks.neurotoxin import Neurotoxin
from f2ed.attacks.oracle import Oracle
from f2ed.attacks.quiet_backdoor import QuietBackdoor
from f2ed.attacks.semantic import Semantic
from f2ed.attacks.sign_flip import SignFlip
from f2ed.attacks.trimmed_mean_attack import TrimmedMeanAttack

__all__ = [
    "A3FL",
    "ALIE",
    "DBA",
    "HIDRA",
    "IBA",
    "IPM",
    "NO_OVERRIDES",
    "AdaptiveBackdoor",
    "AnyAttack",
    "Attack",
    "AttackerView",
    "Bars",
    "Chameleon",
    "Edge",
    "EdgeCase",
    "EvaluationData",
    "Examples",
    "Gaussian",
    "Goal",
    "Knowledge",
    "KrumAttack",
    "LabelFlip",
    "MaliciousClients",
    "Mimic",
    "MinMax",
    "MinSum",
    "ModelPoisoning",
    "ModelReplacement",
    "Neurotoxin",
    "Oracle",
    "Palette",
    "ProximalTerm",
    "QuietBackdoor",
    "Scene",
    "Semantic",
    "SignFlip",
    "Slopes",
    "Square",
    "StretchedMimic",
    "Success",
    "Train",
    "TrainingOverrides",
    "TrimmedMeanAttack",
    "Variant",
]

AnyAttack = (
    KrumAttack
    | TrimmedMeanAttack
    | ModelPoisoning
    | ModelReplacement
    | DBA
    | ALIE
    | IPM
    | MinMax
    | MinSum
    | LabelFlip
    | SignFlip
    | Gaussian
    | Mimic
    | Neurotoxin
    | HIDRA
    | Oracle
    | Edge
    | AdaptiveBackdoor
    | Chameleon
    | EdgeCase
    | Semantic
    | A3FL
    | IBA
    | QuietBackdoor
    | StretchedMimic
)
