"""Data of your own: files and arrays become data sets, and what cannot be used is refused in one sentence."""

import numpy as np
import pytest
import torch

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets import Csv, Given, ImageFolder, Npz, Parquet
from f2ed.learning.datasets.tables import data_of
from f2ed.learning.partition import Natural

X = np.arange(40, dtype=np.float64).reshape(10, 4)
Y = np.arange(10) % 3


def archive(path, **changed):
    arrays = {"x_train": X, "y_train": Y, "x_test": X[:4], "y_test": Y[:4], "client": np.arange(10) // 2} | changed
    np.savez(path, **{name: each for name, each in arrays.items() if each is not None})
    return Npz(str(path))


def test_a_numpy_archive(tmp_path):
    data = archive(tmp_path / "mine.npz")()
    assert data.shape == (4,)
    assert data.classes == 3
    assert data.train.images.dtype == torch.float32
    assert data.owners.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_file_is_also_looked_for_in_the_folder_of_data_sets(tmp_path):
    archive(tmp_path / "stored_elsewhere.npz")
    assert len(Npz("stored_elsewhere.npz")(tmp_path).train) == 10


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"x_test": None}, "has no array 'x_test'"),
        ({"y_train": Y[:5]}, "found 10 images but 5 labels"),
        ({"x_test": X[:4, :3]}, r"samples of shape \(4,\) and test samples of shape \(3,\)"),
        ({"x_train": np.where(X == 7, np.nan, X)}, "NaN or infinite"),
        ({"x_train": X.astype(str)}, "samples of type .*; numbers are needed"),
        ({"x_train": np.arange(10.0)}, r"samples of shape \(10,\); one row or more"),
        ({"y_train": np.stack([Y, Y])}, r"labels of shape \(2, 10\)"),
        ({"y_train": Y + 10**7}, "number the classes from 0"),
        ({"client": np.arange(3)}, "found 3 client names for 10 training samples"),
        ({"x_train": X[:0], "y_train": Y[:0], "client": None}, "without samples"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(tmp_path, changed, sentence):
    with pytest.raises(ConfigError, match=sentence):
        archive(tmp_path / "mine.npz", **changed)()


def test_a_pickle_in_an_archive_is_refused(tmp_path):
    np.savez(tmp_path / "mine.npz", x_train=np.array([{}], dtype=object))
    with pytest.raises(ConfigError, match="plain arrays"):
        Npz(str(tmp_path / "mine.npz"))()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"there is no nowhere\.npz"):
        Npz("nowhere.npz")(tmp_path)


def table(path, text):
    path.write_text(text)
    return Csv(file=str(path), client="site", test_share=0.25)


ROWS = "".join(f"{i},{i * i},{'yes' if i % 2 else 'no'},clinic {i % 4}\n" for i in range(20))


def test_a_csv_file_with_words_as_labels_and_a_column_of_clients(tmp_path):
    data = table(tmp_path / "t.csv", "age,dose,label,site\n" + ROWS)()
    assert (len(data.train), len(data.test), data.shape, data.classes) == (15, 5, (2,), 2)
    parts = Natural()(data.train.labels.numpy(), 4, 0, owners=data.owners)
    assert sorted(np.concatenate(parts.rows).tolist()) == list(range(15))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("age,dose,grade,site\n1,2,0,a\n", "has no column 'label' for the label"),
        ("age,dose,label\n1,2,0\n", "has no column 'site' for the client"),
        ("age,label,site\nold,0,a\n1,1,b\n2,0,c\n", "column 'age' holds something that is no number"),
        ("age,label,site\n1,0,a\n1,1\n", "row 3: found 2 values for 3 columns"),
        ("label,site\n0,a\n1,b\n", "no column besides 'label'"),
        ("age,label,site\n1,0,a\n", "at least one must be left"),
        ("", "cannot be read as CSV"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        table(tmp_path / "t.csv", text)()


def test_numbers_in_a_csv_keep_their_order_as_labels(tmp_path):
    rows = "".join(f"{i},{i % 12},s\n" for i in range(48))
    data = table(tmp_path / "t.csv", "age,label,site\n" + rows)()
    assert data.classes == 12
    assert (data.train.labels == data.train.images[:, 0].long() % 12).all()


def test_parquet_equals_csv(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table(tmp_path / "t.csv", "age,dose,label,site\n" + ROWS)
    lines = [line.split(",") for line in ROWS.splitlines()]
    columns = {
        name: [kind(line[at]) for line in lines]
        for at, (name, kind) in enumerate({"age": float, "dose": float, "label": str, "site": str}.items())
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    one = Csv(file=str(tmp_path / "t.csv"), client="site")()
    two = Parquet(file=str(tmp_path / "t.parquet"), client="site")()
    assert one.sha256 == two.sha256


def test_a_folder_of_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for split, kind in (("train", "cat"), ("train", "dog"), ("test", "cat"), ("test", "dog")):
        (tmp_path / split / kind).mkdir(parents=True)
        for i in range(3):
            image.new("RGB", (20, 10), (255 * (kind == "dog"), i, 0)).save(tmp_path / split / kind / f"{i}.png")
    data = ImageFolder(str(tmp_path), side=8)()
    assert data.shape == (3, 8, 8)
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.train.images[3:, 0].min() == 1.0
    with pytest.raises(ConfigError, match="holds no images"):
        ImageFolder(str(tmp_path / "train"))()


def test_given_data_are_known_by_their_content():
    one, two = Given.of((X, Y, X, Y)), Given.of((X, Y, X, Y))
    assert one == two
    assert Given.of((X + 1, Y, X, Y)) != one
    assert one().train.images.tolist() == X.tolist()
    with pytest.raises(ConfigError, match="given by value in another process"):
        Given("0" * 64)()


def test_integers_stay_integers_since_they_may_be_tokens():
    assert data_of(X.astype(np.int64), Y, X.astype(np.int64), Y).train.images.dtype == torch.int64
    assert data_of(X.astype(np.uint8), Y, X.astype(np.uint8), Y).train.images.dtype == torch.float32


def test_the_natural_partition_needs_owners_and_enough_of_them():
    with pytest.raises(ConfigError, match="name their client column"):
        Natural()(Y, 3, 0)
    with pytest.raises(ConfigError, match="the data name 2 clients; state clients = 2 or fewer"):
        Natural()(Y, 3, 0, owners=np.arange(10) % 2)
    drawn = Natural()(Y, 2, 0, owners=np.arange(10) // 2)
    assert [len(rows) for rows in drawn.rows] == [2, 2]
