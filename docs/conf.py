"""Sphinx settings; build with `sphinx-build -W docs docs/_build/html`. Nothing is fetched from the net."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

import f2ed
from f2ed.report import write_page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "scripts"))

import api_reference  # noqa: E402  in the folder just named
import helpers_sequence  # noqa: E402  likewise
import layers  # noqa: E402  likewise
import sequence  # noqa: E402  likewise

api_reference.write(HERE / "reference")
layers.write(HERE / "diagrams" / "layers.svg", HERE.parent / "pyproject.toml")
sequence.write(HERE / "diagrams")
helpers_sequence.write(HERE / "diagrams")
write_page(
    [HERE.parent / "results" / "fig2_shards"],
    HERE / "_build" / "extra" / "example_report.html",
    title="Figure 2 of the paper",
)

project = "f2ed"
copyright = "the f2ed contributors"  # noqa: A001  Sphinx's name for it
release = version = f2ed.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build", "scripts", "diagrams", "notebooks"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
smartquotes = False  # they would turn the dashes of an option into one

# Docstrings write code in single backticks, as Markdown does.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True

html_theme = "furo"
html_extra_path = ["_build/extra"]
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_title = f"f2ed {release}"


def setup(app: Sphinx) -> None:
    """Shorten the signatures of the reference."""
    app.connect("autodoc-process-signature", api_reference.process_signature)
