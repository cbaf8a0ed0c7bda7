"""Lists make a grid, and what cannot work is refused with its place in the file before anything starts."""

import pytest

from f2ed.core.errors import ConfigError
from f2ed.estimators import FilterL2, Mean
from f2ed.experiments import expand, find, prepare, read, run_all
from f2ed.experiments.file import parse
from f2ed.protocol.sharding import EveryKRounds
from f2ed.records import read_all
from tests.experiments.small_grid import SMALL


def names(text):
    return [cell.name for cell in expand(parse(text, "a.toml"))]


def changed(**lines):
    """Return the small file with some settings stated otherwise; None leaves one out."""
    kept = [row for row in SMALL.splitlines() if row.split(" =")[0] not in lines]
    return "\n".join([*kept, *(f"{name} = {value}" for name, value in lines.items() if value is not None)])


def test_a_file_without_lists_is_one_run_named_after_the_file():
    assert names(SMALL) == ["Small"]


def test_lists_make_a_grid_in_the_order_of_the_file():
    text = changed(attack='["none", "trimmed-mean-attack"]', estimator='["mean", "median"]')
    assert names(text) == ["none, mean", "none, median", "trimmed-mean-attack, mean", "trimmed-mean-attack, median"]


def test_numbers_are_named_by_their_setting():
    assert names(changed(seed="[0, 1]", shards='[4, "none"]')) == [
        "seed 0, shards 4",
        "seed 0, none",
        "seed 1, shards 4",
        "seed 1, none",
    ]


def test_training_may_have_lists_too():
    cells = expand(parse(changed(training="{ lr = [0.1, 0.2] }"), "a.toml"))
    assert [cell.experiment.training.lr for cell in cells] == [0.1, 0.2]
    assert cells[1].arm == {"training.lr": "0.2"}


def test_the_label_of_a_table_of_data_is_its_column(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{row},{row % 2}\n" for row in range(100)), "utf-8")
    table = f'{{ kind = "csv", file = "{tmp_path}/a.csv", label = "y" }}'
    for data in (table, f"[{table}]"):
        (cell,) = expand(parse(changed(data=data), "a.toml"))
        assert cell.experiment.data.label == "y"


def test_runs_of_one_kind_are_told_apart_by_their_settings_or_a_label():
    text = changed(
        estimator='["mean", { kind = "filter-l2", contamination = 0.1 }, { kind = "filter-l2", label = "ours" }]'
    )
    cells = expand(parse(text, "a.toml"))
    assert [cell.name for cell in cells] == ["mean", "filter-l2(contamination=0.1)", "ours"]
    assert [cell.experiment.estimator for cell in cells] == [
        Mean(),
        FilterL2(contamination=0.1),
        FilterL2(contamination=0.25),
    ]


def test_names_may_be_short_for_tables():
    (cell,) = expand(parse(changed(schedule='{ kind = "every-k-rounds", k = 2 }'), "a.toml"))
    assert cell.experiment.schedule == EveryKRounds(k=2)


def test_every_run_has_a_file_of_its_own():
    cells = expand(parse(changed(seed="[0, 1, 2]", attack='["none", "trimmed-mean-attack"]'), "a.toml"))
    assert len({cell.slug for cell in cells}) == 6


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ({"clinets": "3"}, r"a\.toml: clinets: unknown setting; did you mean clients\?"),
        ({"training": "{ lr = 0.1, momentun = 0.9 }"}, r"training\.momentun: .* did you mean momentum"),
        ({"estimator": '"filter-l3"'}, r"estimator\.kind: there is no 'filter-l3'; did you mean filter-l2"),
        ({"estimator": '["mean", "krumm"]'}, r"estimator\[1\]\.kind: there is no 'krumm'; did you mean krum"),
        ({"estimator": '{ kind = "filter-l2", sigmo = 1 }'}, r"estimator\.sigmo: .* did you mean sigma"),
        ({"estimator": '["mean", { kind = "filter-l2", sigma = -1.0 }]'}, r"estimator\[1\]\.sigma: .*> 0.*found -1"),
        ({"estimator": '{ kind = "nnm", inner = { kind = "krum", fo = 1 } }'}, r"estimator\.inner\.fo"),
        ({"estimator": "3"}, r"estimator: found 3; wanted a name"),
        ({"attack": '"tmaa"'}, r"attack\.kind: there is no 'tmaa'; did you mean trimmed-mean-attack \(tma\)"),
        ({"attack": '["none", { kind = "trimmed-mean-attack", b = 0.5 }]'}, r"attack\[1\]\.b: .*>= 1"),
        ({"data": '"mnits"'}, r"data\.kind: there is no 'mnits'; did you mean mnist"),
        ({"rounds": "0"}, r"rounds: .*>= 1.*found 0"),
        ({"rounds": '"ten"'}, r"rounds: expected `int`, got `str`"),
        ({"rounds": None}, r"rounds is missing"),
        ({"seed": "[]"}, r"seed: the list is empty"),
        ({"seed": "[1, 1]"}, r"seed 1: two runs have the same settings"),
        ({"malicious": "12"}, r"malicious: found 12 of 12 clients; state a number from 0 to 11"),
        ({"malicious": "0"}, r"attack: there are no malicious clients"),
        ({"attack_from": "9"}, r"attack_from: the attack would begin in round 9"),
        ({"shards": "[4, 13]"}, r"shards\[1\]: found 13 shards for 12 clients; use at most 4"),
        ({"shards": "5"}, r"shards: 5 shards of 12 clients leave some with 2, .* use at most 4 shards"),
        ({"estimator": '{ kind = "bulyan", contamination = 0.25 }'}, r"estimator: [Bb]ulyan .* n >= 4f \+ 3"),
        ({"bits": "40", "protocol": "{ mode = 'dropout-tolerant', threshold = 9 }"}, r"protocol: a threshold of 9"),
        (
            {"partition": '{ kind = "pathological", classes_per_client = 11 }'},
            r"partition: found classes_per_client = 11",
        ),
        (
            {"partition": '["iid", { kind = "pathological", classes_per_client = 11 }]'},
            r"partition\[1\]: found classes_per_client = 11",
        ),
        ({"clients": "300", "shards": "4", "malicious": "1"}, r"partition: found 300 clients for 240 samples"),
        (
            {"attack": '{ kind = "model-replacement", target = 10 }'},
            r"attack: invalid target label 10",
        ),
        ({"attack": '{ kind = "model-replacement", trigger = { size = 9 } }'}, r"attack: a trigger down to row 9"),
        ({"data": '{ kind = "synthetic", side = 2 }', "model": '"cnn"'}, r"model: images of 2 x 2 are too small"),
        ({"title": "3"}, r"title: found 3; expected a quoted string"),
        ({"fallback": "3"}, r"fallback: found 3; expected a table"),
        ({"fallback": "{ clents = 3 }"}, r"fallback\.clents: .* did you mean clients"),
        ({"fallback": "{ shards = 13 }"}, r"shards: found 13 shards for 12 clients"),
    ],
)
def test_what_cannot_work_is_refused_with_its_place(lines, error):
    with pytest.raises(ConfigError, match=error):
        prepare(parse(changed(**lines), "a.toml"))


def test_text_that_is_no_toml_is_refused_with_its_line():
    with pytest.raises(ConfigError, match=r"a\.toml is not valid TOML: .*line 1"):
        parse("clients = = 3", "a.toml")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No data set can be found or fetched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("F2ED_DATA", raising=False)
    monkeypatch.setattr("f2ed.learning.datasets.mnist.FETCHERS", ())


@pytest.mark.usefixtures("offline")
def test_without_the_data_the_fallback_takes_their_place_and_says_so():
    said = []
    file = parse(changed(data='"mnist"', fallback='{ data = "digits", rounds = 1, about = "no mnist" }'), "a.toml")
    cells, loaded = prepare(file, notify=said.append)
    assert [str(cell.experiment.data.__struct_config__.tag) for cell in cells] == ["digits"]
    assert cells[0].experiment.rounds == 1
    assert cells[0].about == "no mnist"
    assert len(loaded) == 1
    assert "mnist was not found in" in said[-1]
    assert "fallback" in said[-1]


@pytest.mark.usefixtures("offline")
def test_without_the_data_and_a_fallback_the_file_is_refused():
    with pytest.raises(ConfigError, match=r"a\.toml: data: mnist was not found in"):
        prepare(parse(changed(data='"mnist"'), "a.toml"))


@pytest.mark.usefixtures("offline")
def test_data_that_no_chosen_run_needs_are_not_asked_for():
    file = parse(changed(data='["digits", "mnist"]'), "a.toml")
    cells, loaded = prepare(file, only=["digits"])
    assert [cell.name for cell in cells] == ["digits"]
    assert len(loaded) == 1
    with pytest.raises(ConfigError, match=r"a\.toml: data\[1\]: mnist was not found in"):
        prepare(file)


@pytest.mark.usefixtures("offline")
def test_a_damaged_file_is_refused_and_not_replaced_by_the_fallback(tmp_path):
    (tmp_path / "mnist").mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{name}-ubyte").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match="ubyte"):
        prepare(parse(changed(data='"mnist"', fallback='{ data = "digits" }'), "a.toml"), folder=tmp_path)


def test_a_string_does_where_a_path_is_wanted(tmp_path):
    place = tmp_path / "mine.toml"
    place.write_text('data = { kind = "synthetic", train = 240, test = 60 }\nclients = 12\nshards = 4\nrounds = 1\n')
    (cell,) = expand(read(str(find(str(place)))))
    data = cell.experiment.data.load(str(tmp_path))
    events = [event.kind for event in run_all([cell], str(tmp_path / "out"), loaded={cell.experiment.data: data})]
    assert events == ["began", "round", "finished"]
    assert len(read_all(str(tmp_path / "out"))) == 1
