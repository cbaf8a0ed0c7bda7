"""The IDX reader takes good files, plain or gzip, and names what is wrong with others."""

import gzip

import numpy as np
import pytest

from f2ed.core.errors import ConfigError
from f2ed.learning.datasets.idx import parse_idx, read_idx

GOOD = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_plain_or_gzip_file_is_read(tmp_path, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(GOOD))
    np.testing.assert_array_equal(read_idx(path), [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x08", b"\x00\x00\x0d\x01" + bytes(8), b"\x89PNG" + bytes(20)])
def test_a_wrong_magic_number_is_refused_with_the_files_name(content):
    with pytest.raises(ConfigError, match="some-file starts with"):
        parse_idx(content, "some-file")


@pytest.mark.parametrize("content", [GOOD[:-1], GOOD[:6], GOOD + b"\x00"])
def test_a_file_of_the_wrong_length_is_refused_with_its_name(content):
    with pytest.raises(ConfigError, match=rf"some-file has {len(content)} bytes, expected"):
        parse_idx(content, "some-file")


def test_cut_gzip_is_refused_with_the_files_name(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(GOOD)[:-4])
    with pytest.raises(ConfigError, match=r"cut\.gz is truncated"):
        read_idx(path)
