"""What malicious clients do: each attack says how they train, what they send and what they want.

To add one, write a frozen struct in a file of its own and name it in `AnyAttack`: that union is the
registry, the schema of experiment files and the parameter list of the shared tests.
"""

from f2ed.attacks._common.goal import Exam, Examples, Goal, Palette, Success
from f2ed.attacks._common.training import AS_THE_HONEST, Crew, Pull, Schedule, Train
from f2ed.attacks._common.triggers import Bars, Square
from f2ed.attacks._common.view import Knowledge, View
from f2ed.attacks.alie import ALIE
from f2ed.attacks.base import Attack, Variant
from f2ed.attacks.dba import DBA
from f2ed.attacks.edge import Edge
from f2ed.attacks.gaussian import Gaussian
from f2ed.attacks.hidra import HIDRA
from f2ed.attacks.ipm import IPM
from f2ed.attacks.krum_attack import KA
from f2ed.attacks.label_flip import LabelFlip
from f2ed.attacks.mimic import Mimic
from f2ed.attacks.min_max import MinMax, MinSum
from f2ed.attacks.model_poisoning import MPA
from f2ed.attacks.model_replacement import MRA
from f2ed.attacks.neurotoxin import Neurotoxin
from f2ed.attacks.oracle import Oracle
from f2ed.attacks.sign_flip import SignFlip
from f2ed.attacks.trimmed_mean_attack import TMA

__all__ = [
    "ALIE",
    "AS_THE_HONEST",
    "DBA",
    "HIDRA",
    "IPM",
    "KA",
    "MPA",
    "MRA",
    "TMA",
    "AnyAttack",
    "Attack",
    "Bars",
    "Crew",
    "Edge",
    "Exam",
    "Examples",
    "Gaussian",
    "Goal",
    "Knowledge",
    "LabelFlip",
    "Mimic",
    "MinMax",
    "MinSum",
    "Neurotoxin",
    "Oracle",
    "Palette",
    "Pull",
    "Schedule",
    "SignFlip",
    "Square",
    "Success",
    "Train",
    "Variant",
    "View",
]

AnyAttack = (
    KA
    | TMA
    | MPA
    | MRA
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
)
