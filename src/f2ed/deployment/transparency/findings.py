"""What a check of logs finds: what is wrong, what it means, and the signed lines that show it."""

from typing import Literal, TypeAlias, final

import msgspec

from f2ed.deployment.transparency.lines import Line

__all__ = ["MEANINGS", "Finding", "Kind"]

Kind: TypeAlias = Literal[
    "unreadable",
    "author",
    "signature",
    "gap",
    "chain",
    "began-twice",
    "answered-twice",
    "equivocation",
    "cut-off",
    "two-rosters",
    "split-view",
    "unlisted-round",
    "false-blame",
    "blamed",
    "repaired",
    "torn-end",
]

MEANINGS: dict[Kind, str] = {
    "unreadable": "The file was changed or damaged here; an author names bytes that a crash left.",
    "author": "A log has one author; lines of another were copied into it.",
    "signature": "The line was forged or changed, or belongs to another federation or an author that is not on the "
    "roster. Such a line proves nothing.",
    "gap": "Lines were removed, repeated or put into another order, or the file is one of several: give all of them.",
    "chain": "A line before this one was replaced: its author wrote another history, or somebody else did.",
    "began-twice": "A node takes part in a round once. Two answers under the same masks would reveal its update.",
    "answered-twice": "A helper answers every step of a round once. Two answers could open two sums, and their "
    "difference a single client.",
    "equivocation": "One author signed two lines with the same number: it showed two histories, or its disk was "
    "restored from a backup.",
    "cut-off": "The author signed later lines than its file holds. Copy the file again; if it still ends here, lines "
    "were removed.",
    "two-rosters": "The authority signed two rosters with the same serial, and different parties follow each.",
    "split-view": "Parties that should have been told the same say otherwise, each under its signature. The server "
    "lied to one of them or began the round again after a failure, or one of them writes what is not true.",
    "unlisted-round": "The server's log does not list a round that it asked for: it stopped in that round, or hides "
    "it.",
    "false-blame": "The evidence does not show what the server says: it blames somebody for nothing.",
    "blamed": "This member broke the protocol, or one of these two did; the evidence holds unless it was not checked.",
    "repaired": "A crash left a torn line. It was never sent, and the author named it.",
    "torn-end": "The last line is not complete: a crash, or the file was copied while it was written. Its author names "
    "it with its next line.",
}
"""What each kind of finding means, for people."""

_NOTES = {"blamed", "repaired", "torn-end"}


@final
class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something to look at."""

    kind: Kind
    where: str
    text: str
    lines: tuple[Line, ...] = ()
    """The evidence, as its authors signed it."""

    @property
    def serious(self) -> bool:
        """Whether it is more than a note."""
        return self.kind not in _NOTES
