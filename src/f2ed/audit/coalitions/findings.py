"""What a coalition recovered, and the page about it."""

from collections.abc import Iterable, Sequence
from typing import Literal, final

import msgspec

from f2ed.audit.findings import Interval

__all__ = ["CoalitionFinding", "Strip", "Target", "coalition_conclusions", "coalition_page"]

Target = Literal["images", "labels", "membership", "malicious model", "rounds"]

_HEADS: dict[Target, tuple[str, str]] = {
    "images": ("Images", "Share of images recovered (above 20 dB), and their peak signal-to-noise ratio."),
    "labels": ("Labels", "Share of labels found: of single clients where the coalition sees names, else label counts."),
    "membership": ("Membership", "Area under the ROC curve for: is this image in the sum, or held by this client?"),
    "malicious model": ("Malicious model", "The server sends a model that sorts images into bins by brightness."),
    "rounds": (
        "Many rounds",
        "The model is held still. Cosine: of a client's update, less the mean of all, with what the server solves for.",
    ),
}
_COLLUSION = (
    "**Any two of server, mixer and judge together break the protection.** The server with either of the others has "
    "every update. Mixer and judge have the sketch of every update by name, and the rows that the mixer checks in a "
    "round; with full relay these are all rows."
)
_LEGEND = "Found is followed by its 95 % interval. Guess is the result without having seen anything."


@final
class CoalitionFinding(msgspec.Struct, frozen=True, kw_only=True):
    """How much one coalition recovered of one kind of secret."""

    target: Target
    coalition: str
    """Who sees what."""
    model: str
    metric: str
    found: Interval
    guess: float | None = None
    rounds: int = 1


@final
class Strip(msgspec.Struct, frozen=True, kw_only=True):
    """The same clients' images as one coalition recovers them; a file name and what it shows."""

    file: str
    caption: str


def coalition_conclusions(findings: Sequence[CoalitionFinding]) -> list[str]:
    """Return the images recovered by each coalition, one sentence per model."""
    sentences = []
    for model in dict.fromkeys(one.model for one in findings):
        shares = [
            f"{one.coalition}: {100 * one.found.value:.0f} %"
            for one in findings
            if (one.target, one.model, one.metric) == ("images", model, "share recovered")
        ]
        if shares:
            sentences.append(f"Images recovered, {model} model. {'; '.join(shares)}.")
    return sentences


def coalition_page(title: str, findings: Sequence[CoalitionFinding], strips: Iterable[Strip]) -> str:
    """Return the Markdown page."""
    lines = [f"# {title}", "", *(f"- {sentence}" for sentence in coalition_conclusions(findings))]
    lines += ["", _COLLUSION, "", _LEGEND]
    for target, (head, how) in _HEADS.items():
        chosen = [one for one in findings if one.target == target]
        if not chosen:
            continue
        over_rounds = len({one.rounds for one in chosen}) > 1
        heads = ["coalition", "model", *(["rounds"] if over_rounds else []), "measure", "found", "guess"]
        lines += ["", f"## {head}", "", how, "", _row(heads), _row(["---"] * len(heads))]
        for one in chosen:
            rounds = [str(one.rounds)] if over_rounds else []
            low, high = _number(one.found.low), _number(one.found.high)
            found = f"{_number(one.found.value)} ({low} to {high})"
            lines.append(_row([one.coalition, one.model, *rounds, one.metric, found, _number(one.guess)]))
    lines += ["", "## Pictures"]
    for strip in strips:
        lines += ["", f"{strip.caption}:", "", f"![{strip.caption}]({strip.file})"]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if abs(value) >= 2 else f"{value:.2f}"
