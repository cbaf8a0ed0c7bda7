"""Draws the sequence diagram of a round with helpers as SVG, in the style of `sequence`."""

from pathlib import Path

from sequence import ACCENT, BOX, FONT, LINE, MUTED, label, lifeline

LANES = {"client": 80, "server": 330, "mixer": 620, "judge": 880}
_WIDTH, _TOP, _ROW = 960, 62, 34
Step = tuple[str, ...]
"""A heading (one text), work at a party (party, text), or a message (from, to, text)."""

ROUND: tuple[Step, ...] = (
    ("NEW: open, upload, vote",),
    ("server", "judge", "terms and model digest (to mixer and judge)"),
    ("judge", "server", "fresh keys, commitment to half a seed (from both)"),
    ("server", "client", "model, terms, all openings"),
    ("client", "server", "E sealed to the server, envelope"),
    ("server", "judge", "all envelopes (to both)"),
    ("judge", "server", "accusations, signed (from both)"),
    ("SET: one set, then the joint seed",),
    ("server", "judge", "the set (to both)"),
    ("judge", "server", "signature on the set (from both)"),
    ("server", "judge", "the other helper's signature (to both)"),
    ("judge", "server", "half of the seed (from both)"),
    ("SHARED: the Gram matrix, verified",),
    ("server", "mixer", "sketches of E, signed"),
    ("mixer", "server", "which rows to check"),
    ("server", "mixer", "these rows of E"),
    ("mixer", "compares them with envelopes and sketches"),
    ("mixer", "judge", "its share and tests, sealed"),
    ("server", "judge", "its share and tests, sealed"),
    ("judge", "server", "a random combination u, signed (to both)"),
    ("mixer", "judge", "u'E, sealed"),
    ("server", "judge", "u'E, sealed"),
    ("judge", "verifies, tests, runs the rule, applies the guard"),
    ("WEIGHED and DONE: one sum",),
    ("judge", "server", "who is kept, strikes, hash of the mask; signed"),
    ("server", "mixer", "who is kept, signed by the judge"),
    ("mixer", "applies the guard, erases seeds and keys"),
    ("mixer", "server", "sum of the kept masks"),
    ("server", "compares the hash, adds up, checks the range"),
)


def write(folder: Path) -> None:
    """Write the diagram into the folder, unless it is there already and up to date."""
    drawn, path = draw(), folder / "helpers.svg"
    if not path.exists() or path.read_text() != drawn:
        path.write_text(drawn)


def draw() -> str:
    """Return the diagram as SVG text."""
    height = _TOP + _ROW * len(ROUND) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {FONT}>',
        "<title>A round with helpers, message by message</title>",
        *(part for name, x in LANES.items() for part in lifeline(x, name, height)),
    ]
    for number, step in enumerate(ROUND):
        lines += _drawn(_TOP + _ROW * number + 24, step)
    return "\n".join([*lines, "</svg>", ""])


def _drawn(y: int, step: Step) -> list[str]:
    if len(step) == 1:
        line = f'<line x1="20" y1="{y + 4}" x2="{_WIDTH - 20}" y2="{y + 4}" stroke="{ACCENT}" stroke-opacity="0.5"/>'
        return [line, label(20, y - 2, step[0], anchor="start", weight="bold", color=ACCENT)]
    if len(step) == 2:
        party, text = step
        width = 6.8 * len(text) + 16
        left = min(max(LANES[party] - width / 2, 8), _WIDTH - width - 8)
        box = (
            f'<rect x="{left:.0f}" y="{y - 18}" width="{width:.0f}" height="24" rx="4" fill="{BOX}" stroke="{MUTED}"/>'
        )
        return [box, label(round(left + width / 2), y - 2, text)]
    start, end, text = LANES[step[0]], LANES[step[1]], step[2]
    back = -9 if end > start else 9
    return [
        f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{LINE}" stroke-width="1.4"/>',
        f'<path d="M{end},{y} l{back},-5 v10 z" fill="{LINE}"/>',
        label((start + end) // 2, y - 6, text),
    ]
