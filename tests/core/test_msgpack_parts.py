"""Parts of a message, put together, are the message; large buffers are the caller's own."""

import msgspec
import pytest

from f2ed.core.errors import ConfigError
from f2ed.core.msgpack_parts import Joined, parts


class Inside(msgspec.Struct):
    name: str = "x"
    values: tuple[float, ...] = (1.0, 2.5)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 255, 256, 65_535, 65_536])
def test_the_parts_are_what_msgspec_writes(size):
    value = {"n": size, "none": None, "list": [0] * size, "bytes": bytes(size), "pair": (True, "a"), "struct": Inside()}
    value["map"] = {str(each): each for each in range(min(size, 300))}
    assert b"".join(parts(value)) == msgspec.msgpack.encode(value)


def test_one_value_may_be_in_several_buffers():
    assert b"".join(parts([Joined((b"ab", memoryview(b"cde"))), 1])) == msgspec.msgpack.encode([b"abcde", 1])


def test_large_buffers_are_not_copied():
    data = bytes(1 << 20)
    (found,) = (each for each in parts({"a": [data]}) if len(each) == len(data))
    assert found.obj is data


def test_a_value_beyond_the_format_is_refused(monkeypatch):
    monkeypatch.setattr("f2ed.core.msgpack_parts._MOST", 10)
    with pytest.raises(ConfigError, match="11 bytes in one value"):
        list(parts(bytes(11)))
