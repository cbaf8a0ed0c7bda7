"""A small line chart as SVG, with nothing to install."""

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["chart"]

# Distinguishable also by people who see few colours (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
_DASHES = ("", "6 3", "2 3", "8 3 2 3")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 420, 250, 44, 12, 12, 34


def chart(title: str, lines: Mapping[str, Sequence[float]], rounds: int) -> str:
    """Draw shares (0 to 1, one per round) as percentages over the rounds, with a legend that names each line's end."""
    inside = "".join(
        f'<polyline fill="none" stroke="{_colour(n)}" stroke-width="2" stroke-dasharray="{_dash(n)}" '
        f'points="{_points(values, rounds)}"><title>{escape(name)}</title></polyline>'
        for n, (name, values) in enumerate(lines.items())
    )
    legend = "".join(
        f'<li><svg width="26" height="8" aria-hidden="true"><line x1="0" y1="4" x2="26" y2="4" stroke="{_colour(n)}" '
        f'stroke-width="2" stroke-dasharray="{_dash(n)}"/></svg> {escape(name)}: {100 * values[-1]:.1f} %</li>'
        for n, (name, values) in enumerate(lines.items())
        if values
    )
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title)}">{_axes(rounds)}{inside}</svg><ul class="legend">{legend}</ul></figure>'
    )


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _dash(number: int) -> str:
    return _DASHES[number // len(_COLOURS) % len(_DASHES)]


def _points(values: Sequence[float], rounds: int) -> str:
    return " ".join(f"{_x(n + 1, rounds):.1f},{_y(value):.1f}" for n, value in enumerate(values))


def _x(number: float, rounds: int) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number - 1) / max(rounds - 1, 1)


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)


def _axes(rounds: int) -> str:
    grid = "".join(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}" class="grid"/>'
        f'<text x="{_LEFT - 6}" y="{_y(share) + 4:.1f}" text-anchor="end">{100 * share:.0f} %</text>'
        for share in (0, 0.25, 0.5, 0.75, 1)
    )
    ticks = sorted({1, (1 + rounds) // 2, rounds})
    marks = "".join(f'<text x="{_x(n, rounds):.1f}" y="{_HEIGHT - 18}" text-anchor="middle">{n}</text>' for n in ticks)
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    return f'{grid}{marks}<text x="{middle}" y="{_HEIGHT - 3}" text-anchor="middle">round</text>'
