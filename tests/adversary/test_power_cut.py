"""A power cut after a reply: a node that comes back with what was on its disk does not answer the round again."""

import os
import shutil
from pathlib import Path

import pytest

from tests.flower.lying_server import LyingServer

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the file behind a handle in /proc")


class Disk:
    """Keeps the contents and names that were synced, and loses all others."""

    def __init__(self, folder):
        self.folder, self.contents, self.names = folder, {}, {}

    def sync(self, handle):
        path, inode = Path(f"/proc/self/fd/{handle}").readlink(), os.fstat(handle).st_ino
        if path.is_dir():
            self.names[path] = {each.name: each.stat().st_ino for each in path.iterdir() if each.is_file()}
        else:
            self.contents[inode] = path.read_bytes()

    def cut(self):
        for path in [each for each in self.folder.rglob("*") if each.is_file()]:
            path.unlink()
        for folder, names in self.names.items():
            for name, inode in names.items():
                if folder.is_relative_to(self.folder):
                    (folder / name).write_bytes(self.contents.get(inode, b""))
                    (folder / name).chmod(0o600)


@pytest.mark.parametrize("size", [4, 7], ids=["all-or-nothing", "dropout-tolerant"])
def test_a_node_that_lost_power_after_its_reply_never_begins_the_round_again(tmp_path, monkeypatch, size):
    server = LyingServer(tmp_path, size, mode="all-or-nothing" if size == 4 else "dropout-tolerant")
    for client, node in enumerate(server.nodes):
        node.node_config["f2ed-keys"] = str(tmp_path / "memory" / str(client))
    disks = [Disk(tmp_path / f"client_{client}.state") for client in range(size)]
    monkeypatch.setattr(os, "fsync", lambda handle: [disk.sync(handle) for disk in disks])
    lead = server.all_or_nothing if size == 4 else server.uploaded
    assert len(lead(server.terms())) == size
    for disk in disks:
        disk.cut()
    shutil.rmtree(tmp_path / "memory")
    assert not lead(server.terms())
    assert len(lead(server.terms(1))) == size  # nothing that the node needs was lost
    assert all("never begun twice" in server.refusals[client] for client in range(size))
