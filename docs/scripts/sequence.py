"""Draws the sequence diagrams of the protocol page as SVG, from the steps written below.

The colors are variables of the theme, so that a diagram follows its light and dark modes. `conf.py` calls
`write` at every build.
"""

from html import escape
from pathlib import Path
from typing import Literal, NamedTuple

Kind = Literal["up", "down", "local", "server", "note"]


class Step(NamedTuple):
    """One line of a diagram: an arrow up to the server or down to the client, work on one side, or a heading."""

    kind: Kind
    text: str
    size: str = ""


ALL_OR_NOTHING = (
    Step("note", "once per epoch (10 to 100 rounds)"),
    Step("up", "X25519 and ML-KEM-768 keys, signed with the client's Ed25519 key", "1301 B"),
    Step("down", "the keys of all members"),
    Step("local", "verify every signature; encapsulate a secret for half of the members"),
    Step("up", "ciphertexts for these members, signed with all keys", "1091 B / member"),
    Step("down", "the ciphertexts for this client"),
    Step("local", "one chain with each member; erase the private keys"),
    Step("note", "every round"),
    Step("down", "terms of the round, the model"),
    Step("local", "train, clip, encode; one mask per member from its chain and the context"),
    Step("local", "replace every chain by its hash, and store it"),
    Step("up", "encoded update + masks", "4 B / parameter"),
    Step("server", "add the uploads: all masks cancel, the sum of the shard remains"),
    Step("server", "one upload missing: the shard stays closed this round"),
)

DROPOUT_TOLERANT = (
    Step("note", "0  advertise"),
    Step("down", "terms of the round, the model"),
    Step("up", "two X25519 keys, commitment to the self seed, signature", "188 B"),
    Step("note", "1  share"),
    Step("down", "the advertisements of all members (U1)"),
    Step("local", "split the mask key and the self seed into Shamir shares"),
    Step("up", "one sealed pair of shares per member, with commitments", "139 B / member"),
    Step("note", "2  masked input"),
    Step("down", "the shares sealed for this client (from U2)"),
    Step("local", "train, clip, encode; mask with the self seed and with each member of U2"),
    Step("up", "masked update", "4 B / parameter"),
    Step("server", "add uploads as they arrive"),
    Step("note", "3  consistency"),
    Step("down", "whose upload arrived (U3)"),
    Step("up", "signature on U3", "84 B"),
    Step("note", "4  unmask"),
    Step("down", "all signatures on U3"),
    Step("local", "verify that everyone signed the same U3"),
    Step("up", "per member one share: self seed if alive, mask key if dropped", "45 B / member"),
    Step("server", "rebuild the missing secrets, remove the masks: the sum over U3"),
)

_WIDTH, _CLIENT, _SERVER, _TOP, _ROW = 800, 90, 650, 62, 38
FONT = 'style="max-width: 100%; font-family: sans-serif; font-size: 13px"'
LINE = "var(--color-foreground-secondary, #555)"
_TEXT = "var(--color-foreground-primary, #111)"
MUTED = "var(--color-foreground-muted, #777)"
ACCENT = "var(--color-brand-content, #0a5)"
_PAGE = "var(--color-background-primary, #fff)"
BOX = "var(--color-background-secondary, #f4f4f4)"


def write(folder: Path) -> None:
    """Write each diagram into the folder, unless it is there already and up to date."""
    folder.mkdir(exist_ok=True)
    for name, title, steps in (
        ("all_or_nothing.svg", "The all-or-nothing mode, message by message", ALL_OR_NOTHING),
        ("dropout_tolerant.svg", "The dropout-tolerant mode, message by message", DROPOUT_TOLERANT),
    ):
        drawn, path = draw(title, steps), folder / name
        if not path.exists() or path.read_text() != drawn:
            path.write_text(drawn)


def draw(title: str, steps: tuple[Step, ...]) -> str:
    """Return one diagram as SVG text."""
    height = _TOP + _ROW * len(steps) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {FONT}>',
        f"<title>{escape(title)}</title>",
        *lifeline(_CLIENT, "client", height),
        *lifeline(_SERVER, "server", height),
    ]
    for number, step in enumerate(steps):
        lines += _DRAW[step.kind](_TOP + _ROW * number + 26, step)
    return "\n".join([*lines, "</svg>", ""])


def lifeline(x: int, name: str, height: int) -> list[str]:
    """Return the line of a party under its name."""
    return [
        f'<line x1="{x}" y1="40" x2="{x}" y2="{height - 8}" stroke="{MUTED}" stroke-dasharray="3 4"/>',
        f'<rect x="{x - 50}" y="8" width="100" height="32" rx="5" fill="{BOX}" stroke="{LINE}"/>',
        label(x, 29, name, weight="bold"),
    ]


def _arrow(y: int, step: Step) -> list[str]:
    start, end = (_CLIENT, _SERVER) if step.kind == "up" else (_SERVER, _CLIENT)
    back = -9 if step.kind == "up" else 9
    return [
        f'<line x1="{start}" y1="{y}" x2="{end}" y2="{y}" stroke="{LINE}" stroke-width="1.4"/>',
        f'<path d="M{end},{y} l{back},-5 v10 z" fill="{LINE}"/>',
        label((_CLIENT + _SERVER) // 2, y - 6, step.text),
        label(_SERVER + 12, y + 4, step.size, anchor="start", color=MUTED),
    ]


def _work(y: int, step: Step) -> list[str]:
    at_client = step.kind == "local"
    x = _CLIENT - 8 if at_client else _SERVER + 8
    anchor = "start" if at_client else "end"
    width = 6.8 * len(step.text) + 16
    left = x if at_client else x - width
    text = x + 8 if at_client else x - 8
    return [
        f'<rect x="{left:.0f}" y="{y - 18}" width="{width:.0f}" height="24" rx="4" fill="{BOX}" stroke="{MUTED}"/>',
        label(text, y - 2, step.text, anchor=anchor),
    ]


def _heading(y: int, step: Step) -> list[str]:
    return [
        f'<line x1="20" y1="{y + 4}" x2="{_WIDTH - 20}" y2="{y + 4}" stroke="{ACCENT}" stroke-opacity="0.5"/>',
        label(20, y - 2, step.text, anchor="start", weight="bold", color=ACCENT),
    ]


def label(x: int, y: int, text: str, *, anchor: str = "middle", weight: str = "normal", color: str = _TEXT) -> str:
    """Return a text."""
    # The halo keeps text readable on top of a line.
    halo = f'paint-order="stroke" stroke="{_PAGE}" stroke-width="6"' if color == ACCENT else ""
    style = f'text-anchor="{anchor}" font-weight="{weight}" fill="{color}" {halo}'.rstrip()
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'


_DRAW = {"up": _arrow, "down": _arrow, "local": _work, "server": _work, "note": _heading}
