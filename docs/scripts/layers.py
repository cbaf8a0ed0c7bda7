"""Draws the packages as layers, from the contract that import-linter holds in pyproject.toml.

The colors are variables of the theme, so that the diagram follows its light and dark modes. `conf.py` calls `write` at
every build.
"""

import re
import tomllib
from html import escape
from pathlib import Path

PURPOSE = {
    "cli": "the command f2ed",
    "experiments": "grids from TOML files",
    "report": "pages, figures, exports",
    "simulation": "all clients in one process",
    "flower": "clients over a network",
    "audit": "a curious server, played",
    "deployment": "roster, keys, certificates, state, preflight",
    "learning": "data, models, local training",
    "attacks": "malicious clients",
    "guarantees": "what a setting promises",
    "protocol": "how updates reach the server unseen",
    "estimators": "robust means over rows [n, d]",
    "records": "one format for every run",
    "core": "errors, arrays, randomness, files",
}
"""What each package is for, in a few words."""
RIDE = {"learning": "1", "protocol": "2", "estimators": "3", "simulation": "drives", "flower": "drives"}
"""The packages that an update passes through, in order, and the two drivers."""

_WIDTH, _LEFT, _HEIGHT, _GAP = 640, 34, 50, 12
_LINE = "var(--color-foreground-secondary, #555)"
_TEXT = "var(--color-foreground-primary, #111)"
_MUTED = "var(--color-foreground-muted, #666)"
_ACCENT = "var(--color-brand-content, #0a5)"
_BOX = "var(--color-background-secondary, #f4f4f4)"
_STYLE = "width: 100%; max-width: 640px; font-family: sans-serif; font-size: 14px"


def write(path: Path, pyproject: Path) -> None:
    """Write the diagram, unless it is there already and up to date."""
    drawn = draw(*layers(pyproject))
    if not path.exists() or path.read_text(encoding="utf-8") != drawn:
        path.write_text(drawn, encoding="utf-8")


def layers(pyproject: Path) -> tuple[list[list[str]], list[str]]:
    """Return the packages by layer, and the packages inside `protocol`, top to bottom."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    held = {each["containers"][0]: each["layers"] for each in contracts if each["type"] == "layers"}
    return [re.findall(r"\w+", line) for line in held["f2ed"]], held["f2ed.protocol"]


def draw(rows: list[list[str]], inside: list[str]) -> str:
    """Return the diagram as SVG text."""
    lines, y = [], 8
    for row in rows:
        height = 2 * _HEIGHT - _GAP if "protocol" in row else _HEIGHT
        width = (_WIDTH - _LEFT - 4 - _GAP * (len(row) - 1)) / len(row)
        for place, name in enumerate(row):
            x = _LEFT + place * (width + _GAP)
            lines += _box(x, y, width, height, name)
            lines += _inside(x, y + _HEIGHT - 4, width, inside) if name == "protocol" else []
        y += height + _GAP
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y}" role="img" style="{_STYLE}">'
    title = "<title>The packages of f2ed in layers; each imports only packages below it</title>"
    return "\n".join([opening, title, *_direction(y), *lines, "</svg>", ""])


def _box(x: float, y: float, width: float, height: float, name: str) -> list[str]:
    stroke, weight = (_ACCENT, 2) if name in RIDE else (_MUTED, 1)
    mark, place = RIDE.get(name, ""), f'x="{x:.0f}" y="{y}" width="{width:.0f}" height="{height}"'
    return [
        f'<rect {place} rx="6" fill="{_BOX}" stroke="{stroke}" stroke-width="{weight}"/>',
        _label(x + 10, y + 20, name, weight="bold"),
        _label(x + 10, y + 38, PURPOSE[name], size=12, color=_MUTED),
        *([_label(x + width - 10, y + 20, mark, anchor="end", weight="bold", color=_ACCENT)] if mark else []),
    ]


def _inside(x: float, y: float, width: float, names: list[str]) -> list[str]:
    """Draw the packages inside `protocol` in one line; each imports those to its right."""
    names = [name.replace("|", "/") for name in names]
    return [_label(x + width / 2, y + 22, " → ".join(names), anchor="middle", size=12.5)]


def _direction(height: float) -> list[str]:
    """Draw the arrow beside the layers that says which way imports go."""
    foot, middle = height - 20, height / 2
    style = f'transform="rotate(-90 14 {middle})" text-anchor="middle" font-size="12" fill="{_MUTED}"'
    return [
        f'<line x1="22" y1="12" x2="22" y2="{foot}" stroke="{_LINE}" stroke-width="1.4"/>',
        f'<path d="M22,{foot + 8} l-5,-10 h10 z" fill="{_LINE}"/>',
        f'<text x="14" y="{middle}" {style}>imports</text>',
    ]


def _label(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    weight: str = "normal",
    size: float = 14,
    color: str = _TEXT,
) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}" fill="{color}"'
    return f'<text x="{x:.0f}" y="{y:.0f}" {style}>{escape(text)}</text>'
