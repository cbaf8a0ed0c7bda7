"""Curves of several seeds, panel by panel."""

from f2ed.report.rule_curves import draw_rule_curves

PANELS = {
    "no attack": {"Mean": [[10.0, 20.0], [12.0, 26.0]], "FilterL2": [[9.0, 21.0]]},
    "Min-Max": {"FilterL2": [[9.0, 12.0, 15.0], [9.0]]},
}


def test_every_panel_and_rule_is_drawn_and_the_same_curves_give_the_same_bytes(tmp_path):
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (first, second):
        draw_rule_curves(PANELS, path)
    text = first.read_text(encoding="utf-8")
    assert first.read_bytes() == second.read_bytes()
    assert all(f">{name}<" in text for name in ("no attack", "Min-Max", "Mean", "FilterL2"))


def test_one_panel_suffices(tmp_path):
    draw_rule_curves({"no attack": {"Mean": [[1.0]]}}, tmp_path / "one.svg")
    assert ">no attack<" in (tmp_path / "one.svg").read_text(encoding="utf-8")
