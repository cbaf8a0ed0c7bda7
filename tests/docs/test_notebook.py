"""The cells of the notebook run one after another, and each last expression can be shown."""

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs/notebooks/first_steps.ipynb"
CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]


def shown(source, names):
    """Run a cell as a notebook does; return what it would show."""
    *body, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        body, last = [*body, last], None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  the notebook's own code
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307


def test_every_cell_runs():
    names = {"__name__": "__main__"}
    found = [shown("".join(cell["source"]), names) for cell in CELLS if cell["cell_type"] == "code"]
    errors, plan, run, accuracies, figure, frame, model, own = (each for each in found if each is not None)
    assert errors["error of FilterL2"] < 0.2 * errors["error of the mean"]
    assert plan.recommended
    assert "6 of 6 rounds" in run._repr_html_()
    assert accuracies["FilterL2"] > accuracies["mean"]
    assert len(figure.axes) == 2
    assert list(frame) == ["accuracy", "loss", "crowd"]
    assert sum(each.numel() for each in model.parameters()) > 0
    assert 0 < own <= 1


def test_no_output_is_committed():
    assert all(not cell.get("outputs") for cell in CELLS)
