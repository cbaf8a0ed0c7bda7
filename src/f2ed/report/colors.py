"""One look per estimator, the same on the page and in figures (colors: Okabe and Ito, safe for the color-blind).

A look is a color and a dash, so that lines also differ in print and for those who see few colors. Known names have
theirs by this table; any other name has one that depends on the name alone, unless it is taken. Yellow is left out (it
vanishes on white), and black became a gray that shows on dark pages too.
"""

from collections.abc import Container
from itertools import product
from typing import NamedTuple
from zlib import crc32

__all__ = ["Look", "apart", "look"]

BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#808080",
)
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, GREY)
DASHES = ("solid", "dash", "dot", "dashdot")


class Look(NamedTuple):
    """How an estimator is drawn; dashes by Plotly's names."""

    color: str
    dash: str


_KNOWN = {
    "filter-l2": Look(BLUE, "solid"),
    "mean": Look(GREY, "solid"),
    "krum": Look(VERMILLION, "solid"),
    "trimmed-mean": Look(GREEN, "solid"),
    "bulyan": Look(PURPLE, "solid"),
    "median": Look(SKY, "solid"),
    "geometric-median": Look(ORANGE, "solid"),
    "no-regret": Look(BLUE, "dash"),
    "multi-krum": Look(VERMILLION, "dash"),
    "mea-med": Look(GREEN, "dash"),
    "mda": Look(PURPLE, "dash"),
    "centered-clipping": Look(ORANGE, "dash"),
    "smea": Look(SKY, "dash"),
    "clipping": Look(GREY, "dash"),
    "sections": Look(BLUE, "dot"),
    "dnc": Look(VERMILLION, "dot"),
    "mo-nna": Look(GREEN, "dot"),
    "nnm": Look(PURPLE, "dot"),
    "bucketing": Look(ORANGE, "dot"),
    "arc": Look(GREY, "dot"),
}


def look(name: str, variant: int = 0) -> Look:
    """Return the look of an estimator; variants of one (other parameters) share its color and differ in the dash.

    `outer + inner` is a rule around another: it has the outer one's color, and a dash by the inner one.
    """
    outer, _, inner = name.partition(" + ")
    if outer in _KNOWN:
        found = _KNOWN[outer]
    else:
        number = crc32(outer.encode())
        found = Look(COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)])
    within = list(_KNOWN).index(inner) if inner in _KNOWN else crc32(inner.encode())
    return Look(found.color, DASHES[(DASHES.index(found.dash) + within + variant) % len(DASHES)])


def apart(wanted: Look, taken: Container[Look]) -> Look:
    """Return the look that is wanted, or one that is not taken: first of its color, then of the next ones."""
    color, dash = COLOURS.index(wanted.color), DASHES.index(wanted.dash)
    every = product(COLOURS[color:] + COLOURS[:color], DASHES[dash:] + DASHES[:dash])
    return next((each for each in map(Look._make, every) if each not in taken), wanted)
