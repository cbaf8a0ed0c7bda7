"""The desk between a test and the processes of a run: a folder of small files, each written whole."""

import os
import time
from pathlib import Path


class Desk:
    """Orders go one way, reports the other."""

    def __init__(self, folder):
        self._folder = Path(folder)

    def path(self, name):
        """Return where a file is."""
        return self._folder / name

    def put(self, name, text=""):
        """Write a file atomically."""
        self.put_bytes(name, str(text).encode())

    def put_bytes(self, name, data):
        """Write a file of bytes atomically."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_bytes(data)
        beside.replace(path)

    def read(self, name):
        """Return what a file says, or None if it is not there."""
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return None

    def take(self, name):
        """Return what a file says and remove it: an order is carried out once."""
        text = self.read(name)
        if text is not None:
            (self._folder / name).unlink()
        return text

    def wait(self, name):
        """Return once a file exists."""
        while (text := self.read(name)) is None:
            time.sleep(0.05)
        return text

    def record(self, name, data):
        """Add to a file of bytes."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
