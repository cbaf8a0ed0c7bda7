"""What all figures for papers have in common: a style, and files that the same records give byte for byte."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from f2ed.core.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["drawing", "save"]

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "f2ed",
    "pdf.fonttype": 42,
}
# Without the date, which is all that would differ.
_UNDATED: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def drawing(command: str) -> Iterator[None]:
    """Draw in the style of all figures; raise `MissingExtra` where there is nothing to draw with."""
    try:
        from matplotlib import rc_context  # noqa: PLC0415  an optional dependency
    except ModuleNotFoundError:
        raise MissingExtra(command, "report") from None
    with rc_context(_STYLE):
        yield


def save(figure: "Figure", path: Path) -> None:
    """Write the figure in the format of the path's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=300, metadata=_UNDATED.get(path.suffix, {}), bbox_inches="tight")
