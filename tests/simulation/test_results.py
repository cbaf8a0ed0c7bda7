"""A run in hand: lazy, kept, and shown as tables, figures and a model."""

import sys
from math import isnan
from types import SimpleNamespace

import pytest
import torch

import f2ed
from f2ed.core.errors import ConfigError
from f2ed.learning import flatten
from f2ed.records.columns import NUMBERS
from f2ed.simulation import Run, Simulation, experiment, simulate
from tests.simulation.small_run import SMALL


def test_a_run_is_lazy_and_kept():
    run = simulate(SMALL)
    assert isinstance(run, f2ed.Run)
    assert run.log.rounds == ()
    first = next(iter(run))
    assert run.log.rounds == (first,)
    assert "1 of 3 rounds, accuracy" in repr(run)
    assert next(iter(run)) is first
    assert list(run) == list(run.records)
    assert run.log.finished
    assert len(run.records) == 3


def test_another_run_can_begin_with_its_saved_model(tmp_path):
    first = simulate(SMALL)
    first.save_model(tmp_path / "model.safetensors")
    again = Simulation(experiment(SMALL | {"start": str(tmp_path / "model.safetensors")}))
    assert torch.equal(again.start().model, flatten(first.model()))
    with pytest.raises(ConfigError, match=r"the model cannot be saved to .*: Is a directory"):
        first.save_model(tmp_path)


def test_its_model_is_that_of_the_simulation_and_predicts_as_recorded():
    run = simulate(SMALL)
    *_, (state, _) = Simulation(experiment(SMALL)).rounds()
    simulation = Simulation(experiment(SMALL))
    model, test = run.model(), simulation.data.test
    assert all(
        torch.equal(mine, theirs)
        for mine, theirs in zip(model.state_dict().values(), simulation.model(state).state_dict().values(), strict=True)
    )
    assert float((model(test.images).argmax(1) == test.labels).double().mean()) == run.records[-1].accuracy


def test_a_table_has_a_row_for_each_round():
    run = simulate(SMALL)
    table = run.to_table()
    assert table.column_names == ["round", *NUMBERS]
    assert table["round"].to_pylist() == [0, 1, 2]
    assert table["accuracy"].to_pylist() == [record.accuracy for record in run]
    assert table["success"].null_count == 3


def test_a_frame_needs_pandas_and_a_table_needs_pyarrow(monkeypatch):
    run = simulate(SMALL | {"rounds": 1})
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"to_frame needs pandas, which is not installed.* or use to_table"):
        run.to_frame()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match="to_table needs the extra 'parquet'"):
        run.to_table()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="plot needs the extra 'report'"):
        run.plot()


def test_a_frame_is_made_of_the_same_columns(monkeypatch):
    class Frame(dict):
        def set_index(self, name):
            return name, self

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=Frame))
    index, columns = simulate(SMALL).to_frame()
    table = simulate(SMALL).to_table()
    assert index == "round"
    assert list(columns) == table.column_names
    assert columns["accuracy"] == table["accuracy"].to_pylist()
    assert all(isnan(value) for value in columns["success"])


def test_a_plot_has_a_panel_for_what_was_measured():
    untargeted = simulate(SMALL).plot()
    assert [panel.get_ylabel() for panel in untargeted.axes] == ["accuracy", "loss"]
    targeted = simulate(SMALL | {"attack": {"kind": "model-replacement", "boost": 3.0}}).plot()
    assert [panel.get_ylabel() for panel in targeted.axes] == ["accuracy", "attack success", "loss"]
    (curve,) = untargeted.axes[0].lines
    assert list(curve.get_xdata()) == [0, 1, 2]


def test_a_notebook_shows_the_rounds_so_far():
    run = simulate(SMALL | {"client_dropout": 0.99})
    assert "0 of 3 rounds" in run._repr_html_()
    assert run.log.rounds == ()
    run.records  # noqa: B018  runs it
    assert run._repr_html_().count("<tr>") == 4
    assert "nothing was opened" in run._repr_html_()


def test_an_error_in_a_round_leaves_the_rounds_before_it(monkeypatch):
    run = simulate(SMALL)
    rounds = iter(run)
    first = next(rounds)
    monkeypatch.setattr(run._simulation, "step", lambda state: 1 / 0)  # noqa: ARG005  as the method
    with pytest.raises(ZeroDivisionError):
        next(rounds)
    assert run.log.rounds == (first,)
    monkeypatch.undo()
    assert len(run.records) == 3
    assert isinstance(run, Run)
