"""All grades and thresholds: how an attacked run ended, which guarantee applies, when privacy is meaningful.

An attack is graded at the end of a run, by the accuracy it costs and by how often a targeted attack succeeds:

    held       at most 5 points of accuracy lost, and success in at most 20 % of inputs
    degraded   worse than that
    broken     20 points or more lost, or success in half of the inputs or more

Without a run that nobody attacked there is nothing to compare the accuracy with, and it is not graded.
"""

from collections.abc import Sequence
from typing import Literal

from f2ed.records.schema import RoundRecord

__all__ = [
    "GRADES",
    "LATE_ROUNDS",
    "MARGIN",
    "MAX_DP_EPSILON",
    "SHARDS_PER_ATTACKER",
    "THEOREM_SHARE",
    "Grade",
    "Level",
    "Region",
    "grade",
    "grade_dp",
    "grade_region",
    "late_contaminated_weight",
    "region",
]

Grade = Literal["held", "degraded", "broken", "unknown"]
Level = Literal["held", "degraded", "broken", "unknown", "note"]
"""Of a finding; "note" is neither good nor bad."""
Region = Literal["theorem", "experience", "nothing"]

GRADES: tuple[Grade, ...] = ("held", "degraded", "broken")
"""From good to bad."""

MARGIN, LOST_MUCH = 0.05, 0.20
"""Accuracy lost: up to the margin an estimator holds, from the second number on it is broken."""
SUCCESS_LITTLE, SUCCESS_MUCH = 0.20, 0.50
LATE_ROUNDS = 5
"""The weight on contaminated shards is averaged over this number of last rounds."""
SHARDS_PER_ATTACKER = 12
THEOREM_SHARE = 1 / SHARDS_PER_ATTACKER
"""The theorem covers FilterL2 while less than this share of the rows is contaminated."""
STRONG_DP_EPSILON, MAX_DP_EPSILON = 1.0, 10.0
"""Below the first, differential privacy is strong; above the second it is no meaningful guarantee."""


def grade(lost: float | None, success: float | None) -> Grade:
    """Grade an attack by the accuracy it costs and by its success, the worse of the two; None is not known."""
    grades = (_grade(lost, MARGIN, LOST_MUCH), _grade(success, SUCCESS_LITTLE, SUCCESS_MUCH))
    known = [each for each in grades if each != "unknown"]
    return max(known, key=GRADES.index) if known else "unknown"


def region(contaminated: int, rows: int) -> Region:
    """Return where this many contaminated rows fall: covered by the theorem, by experience only, or by nothing."""
    if SHARDS_PER_ATTACKER * contaminated < rows:
        return "theorem"
    return "experience" if 2 * contaminated < rows else "nothing"


def grade_region(where: str) -> Grade:
    """Grade a guarantee by its region."""
    grades: dict[str, Grade] = {"theorem": "held", "experience": "degraded", "nothing": "broken"}
    return grades.get(where, "unknown")


def grade_dp(dp_epsilon: float) -> Literal["strong", "moderate", "weak"]:
    """Grade differential privacy by its epsilon."""
    if dp_epsilon <= STRONG_DP_EPSILON:
        return "strong"
    return "moderate" if dp_epsilon <= MAX_DP_EPSILON else "weak"


def late_contaminated_weight(rounds: Sequence[RoundRecord]) -> float | None:
    """Average the weight on contaminated shards over the last rounds; None where it is not known."""
    late = [weight for record in rounds[-LATE_ROUNDS:] if (weight := record.contaminated_weight) is not None]
    return sum(late) / len(late) if late else None


def _grade(found: float | None, little: float, much: float) -> Grade:
    if found is None:
        return "unknown"
    return "held" if found <= little else "degraded" if found < much else "broken"
