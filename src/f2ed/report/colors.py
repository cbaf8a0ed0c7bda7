"""One look per estimator of a page, the same in plots and figures (colors: Okabe and Ito, safe for the color-blind).

A look is a color and a dash, so that lines also differ in print and for those who see few colors. Every family of
estimators has a color, which its first member takes; further members take colors that no family needs, and when these
run out they share the family's and differ in the dash. Yellow is left out (it vanishes on white), and black became a
gray that shows on dark pages too.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from f2ed.records import Plugin

__all__ = ["COLORS", "DASHES", "Look", "assign_looks"]

BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, GRAY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#808080",
)
COLORS = (GRAY, GREEN, VERMILLION, PURPLE, BLUE, ORANGE, SKY)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


class Look(NamedTuple):
    """How an estimator is drawn; dashes by Plotly's names."""

    color: str
    dash: str


def assign_looks(estimators: Mapping[str, Plugin]) -> dict[str, Look]:
    """Return a look for each label; labels of one estimator with different parameters share its color if they can.

    Estimators come before those that wrap another. When all looks are taken, they are shared.
    """
    order = sorted(estimators, key=lambda label: (*_place(estimators[label]), label))
    families = list(dict.fromkeys(estimators[label].family for label in order))
    base = {family: COLORS[index % len(COLORS)] for index, family in enumerate(families)}
    found: dict[str, Look] = {}
    for label in order:
        plugin = estimators[label]
        same = [look.color for other, look in found.items() if estimators[other].full_kind == plugin.full_kind]
        wanted = _wanted(same, base, plugin.family, {look.color for look in found.values()})
        found[label] = next((look for look in wanted if look not in found.values()), Look(base[plugin.family], "solid"))
    return found


def _place(plugin: Plugin) -> tuple[bool, str, str]:
    return plugin.inner is not None, plugin.family, plugin.full_kind


def _wanted(same: list[str], base: Mapping[str, str], family: str, used: set[str]) -> Iterator[Look]:
    """Yield looks from the most to the least suitable."""
    own, spare = base[family], [color for color in COLORS if color not in base.values()]
    if same:
        yield from (Look(same[0], dash) for dash in DASHES)
    else:
        yield Look(own, "solid")
    yield from (Look(color, "solid") for color in spare if color not in used)
    for colors in ([own], spare, COLORS):
        yield from (Look(color, dash) for dash, color in product(DASHES[1:], colors))
    yield from (Look(color, "solid") for color in COLORS)
