"""Figures and exports, read back with other programs."""

import csv
import re
import sys
import xml.etree.ElementTree as ET

import pytest

from f2ed.core.errors import ConfigError, MissingExtra
from f2ed.records.reader import read_runs
from f2ed.report.arms import arms
from f2ed.report.export import write_csv, write_parquet, write_tensorboard
from f2ed.report.figures import write_figures
from tests.report.report_runs import demo, header, save


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = demo(tmp_path_factory.mktemp("runs"), seeds=(0, 1), attacks=("none", "trimmed-mean-attack", "dba"))
    return read_runs([folder])[0]


@pytest.mark.parametrize(("kind", "magic"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_a_figure_is_a_file_of_its_kind_and_the_same_every_time(runs, tmp_path, kind, magic):
    (first,) = write_figures(runs, tmp_path / "a", kind)
    (second,) = write_figures(runs, tmp_path / "b", kind)
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()


def test_a_figure_has_a_panel_per_attack_and_the_pages_colors(runs, tmp_path):
    (path,) = write_figures(runs, tmp_path, "svg")
    text = path.read_text()
    ids = [node.get("id", "") for node in ET.fromstring(text).iter()]  # noqa: S314  our own file
    assert sum(each.startswith("axes_") for each in ids) == 3
    for title in ("(a) no attack", "(b) Trimmed-mean attack", "(c) Distributed backdoor", "attack success"):
        assert title in text
    colors = {arm.look.color.lower() for arm in arms(runs)}
    assert len(colors) == 4
    assert all(color in text for color in colors)


def test_a_panel_keeps_its_height_beside_a_long_legend(tmp_path):
    demo(
        tmp_path / "runs",
        attacks=("trimmed-mean-attack",),
        estimators=("mean", "krum", "trimmed-mean", "filter-l2", "median", "nnm"),
    )
    (path,) = write_figures(read_runs([tmp_path / "runs"])[0], tmp_path, "svg")
    tree = ET.parse(path)  # noqa: S314  our own file
    _, background, *_ = (node for node in tree.iter() if node.get("id", "").startswith("patch_"))
    heights = [float(height) for height in re.findall(r"[ML] \S+ (\S+)", background[0].get("d"))]
    assert max(heights) - min(heights) > 50


def test_a_legend_is_no_wider_than_the_panels(tmp_path):
    rules = ("mean", "krum", "trimmed-mean", "filter-l2", "geometric-median", "centered-clipping", "median", "dnc")
    demo(tmp_path / "runs", attacks=("none", "krum-attack", "trimmed-mean-attack", "dba"), estimators=rules)
    (path,) = write_figures(read_runs([tmp_path / "runs"])[0], tmp_path, "svg")
    width = ET.parse(path).getroot().get("width")  # noqa: S314  our own file
    inches = float(width.removesuffix("pt")) / 72
    assert inches == pytest.approx(4 * 1.8, abs=0.3)


def test_each_setting_is_a_figure_of_its_own(tmp_path):
    for shards in (10, 25):
        demo(tmp_path / "runs" / str(shards), estimators=("mean",), attacks=("none",), shards=shards)
    written = write_figures(read_runs([tmp_path / "runs"])[0], tmp_path, "svg")
    assert [path.name for path in written] == ["shards-10.svg", "shards-25.svg"]


def test_csv_has_a_row_for_each_round(runs, tmp_path):
    assert write_csv(runs, tmp_path / "out" / "all.csv") == 24 * 12
    with (tmp_path / "out" / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24 * 12
    by_file = {run.file: run for run in runs}
    for row in rows:
        record = by_file[row["file"]].rounds[int(row["round"])]
        assert float(row["accuracy"]) == record.accuracy
        assert row["success"] == ("" if record.success is None else str(record.success))


def test_parquet_holds_the_same_as_csv(runs, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert write_parquet(runs, tmp_path / "all.parquet") == 24 * 12
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.num_rows == 24 * 12
    wanted = {(run.file, each.round): each.accuracy for run in runs for each in run.rounds}
    assert {(row["file"], row["round"]): row["accuracy"] for row in table.to_pylist()} == wanted
    assert str(table.schema.field("success_every").type) == "double"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_tensorboard_reads_what_was_written_and_a_second_export_replaces_the_first(runs, tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    write_tensorboard(runs, tmp_path)
    write_tensorboard(runs, tmp_path)
    run = runs[0]
    (path,) = (tmp_path / run.file.removesuffix(".jsonl")).iterdir()
    found = {}
    for event in loader.LegacyEventFileLoader(str(path)).Load():
        for value in event.summary.value:
            found[value.tag, event.step] = value.simple_value
    for record in run.rounds:
        assert found["round/accuracy", record.round] == pytest.approx(record.accuracy)
        assert found["seconds/train", record.round] == pytest.approx(record.seconds.train)


@pytest.mark.parametrize(
    ("module", "write", "extra"),
    [
        ("pyarrow", write_parquet, "parquet"),
        ("tensorboard", write_tensorboard, "tensorboard"),
        ("matplotlib", lambda runs, path: write_figures(runs, path, "svg"), "report"),
    ],
)
def test_a_missing_program_is_named_with_how_to_get_it(runs, tmp_path, monkeypatch, module, write, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"f2ed\[{extra}\]"):
        write(runs, tmp_path / "x")


def test_runs_without_a_round_have_nothing_to_draw_or_export(tmp_path):
    save(tmp_path, header(), rounds=0)
    runs, _ = read_runs([tmp_path])
    with pytest.raises(ConfigError, match="no run has a round"):
        write_figures(runs, tmp_path, "svg")
    with pytest.raises(ConfigError, match="no run has a round"):
        write_csv(runs, tmp_path / "x.csv")
