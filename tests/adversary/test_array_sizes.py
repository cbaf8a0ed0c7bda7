"""A header that declares more than the message holds is refused before anything of that size is allocated."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from flwr.app import Array, ArrayRecord

from f2ed import PeerError
from tests.adversary.lying_server import SIZE, VICTIM, LyingServer, app_with, model, training_request


def npy(descr, shape, data, *, version=1, fill=b" "):
    """Return bytes in the npy form with any header."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += fill * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 if version == 1 else 4, "little") + text + data


def request(data, *, dtype="float32", shape=(SIZE,)):
    return training_request(arrays=ArrayRecord({**model(), "x": Array(dtype, shape, "numpy.ndarray", data)}))


FLOATS = bytes(4 * SIZE)
HUGE = (2**41,)
BAD = {
    "8 TiB": (request(npy("'<f4'", HUGE, FLOATS), shape=HUGE), "declares 8796093022208 bytes and comes with 160"),
    "8 TiB in another form": (request(npy("'<f4'", HUGE, FLOATS, version=2), shape=HUGE), "declares 8796093022208"),
    "more than memory can address": (request(npy("'<f4'", (2**62, 8), b""), shape=(2**62, 8)), "declares"),
    "items of 2 GB": (request(npy("'V2000000000'", (1,), b""), dtype="|V2000000000", shape=(1,)), "declares"),
    "items of nothing": (request(npy("'V0'", HUGE, b""), dtype="|V0", shape=HUGE), "only plain numbers"),
    "objects": (request(npy("'O'", (1,), b"cos"), dtype="object", shape=(1,)), "only plain numbers"),
    "a byte less": (request(npy("'<f4'", (SIZE,), FLOATS[1:])), "declares 160 bytes and comes with 159"),
    "a byte more": (request(npy("'<f4'", (SIZE,), FLOATS + b"x")), "declares 160 bytes and comes with 161"),
    "a negative size": (request(npy("'<f4'", (-1,), b""), shape=(-1,)), "both must be equal"),
    "a true size": (request(npy("'<f4'", (True,), FLOATS[:4]), shape=(1,)), "both must be equal"),
    "another type": (request(npy("'<f8'", (SIZE // 2,), FLOATS)), "both must be equal"),
    "no header": (request(b""), "no npy header"),
    "half a header": (request(npy("'<f4'", (SIZE,), FLOATS)[:40]), "no npy header"),
    "an unknown version": (request(npy("'<f4'", (SIZE,), FLOATS, version=9)), "no npy header"),
    "a type that is none": (request(npy("'<f4x'", (SIZE,), FLOATS)), "no npy header"),
    "a deep header": (request(npy("(" * 4000 + ")" * 4000, (SIZE,), FLOATS)), "no npy header"),
    "a long header": (request(npy("'<f4'", (SIZE,), FLOATS, version=2, fill=b" " * 10**6)), "no npy header"),
    "a pickle": (request(b"\x80\x04cos\nsystem\n"), "no npy header"),
    "an archive": (request(b"PK\x03\x04" + bytes(100)), "no npy header"),
}


@pytest.mark.parametrize("attack", BAD)
def test_an_array_that_is_not_what_it_says_is_refused(tmp_path, attack):
    content, words = BAD[attack]
    lying = LyingServer(tmp_path, app_with(lambda *_: 1.0)).lead(content, training_request())
    with pytest.raises(PeerError, match=f"it refused: .*{words}"):
        lying.upload(VICTIM)
    assert len(lying.app.rates) == 3


def test_the_refusal_needs_no_memory(tmp_path):
    """With 256 MiB to spare, as a limit of the system, a node refuses arrays of any declared size, and lives."""
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.adversary.test_array_sizes", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.stdout.splitlines()[-1:] == [f"{len(BAD)} refused, then an upload"], child.stdout + child.stderr


def _refuse_all(folder):
    lying = LyingServer(Path(folder), app_with(lambda *_: 1.0))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
    refused = 0
    for content, _ in BAD.values():
        try:
            lying.lead(content, content).upload(VICTIM)
        except PeerError as error:
            refused += "it refused" in str(error)
    lying.lead(training_request(), training_request()).upload(VICTIM)
    sys.stdout.write(f"{refused} refused, then an upload\n")


if __name__ == "__main__":
    _refuse_all(sys.argv[1])
