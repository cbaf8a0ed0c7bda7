"""The signed roster: everything about a federation that the server must not choose."""

from f2ed.deployment.roster.draw import check_head
from f2ed.deployment.roster.files import read_roster, read_serials, write_roster
from f2ed.deployment.roster.groups import check_groups, check_step, leak_bound, leak_of
from f2ed.deployment.roster.helper_parts import HelperEntry, HelperRole, Helpers
from f2ed.deployment.roster.helpers import (
    acceptance,
    check_countersigned,
    check_helpers,
    countersigned,
    helped_terms,
    helpers_of,
    round_members,
    smallest_sum,
)
from f2ed.deployment.roster.parts import (
    Agreement,
    App,
    Draw,
    Entry,
    Gone,
    Group,
    Grouping,
    Risk,
    SignedEncoding,
)
from f2ed.deployment.roster.roster import KEY_ROUNDS, Roster, revised
from f2ed.deployment.roster.signing import check_signature, signed
from f2ed.deployment.roster.terms import derived_terms, round_task
from f2ed.deployment.training_rules import Rule, TrainingRules

__all__ = [
    "KEY_ROUNDS",
    "Agreement",
    "App",
    "Draw",
    "Entry",
    "Gone",
    "Group",
    "Grouping",
    "HelperEntry",
    "HelperRole",
    "Helpers",
    "Risk",
    "Roster",
    "Rule",
    "SignedEncoding",
    "TrainingRules",
    "acceptance",
    "check_countersigned",
    "check_groups",
    "check_head",
    "check_helpers",
    "check_signature",
    "check_step",
    "countersigned",
    "derived_terms",
    "helped_terms",
    "helpers_of",
    "leak_bound",
    "leak_of",
    "read_roster",
    "read_serials",
    "revised",
    "round_members",
    "round_task",
    "signed",
    "smallest_sum",
    "write_roster",
]
