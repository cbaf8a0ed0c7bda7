"""Flower's grid, and time, as the server of a test sees them."""

import threading
import time

from flwr.common.serde import message_to_proto


class Clock:
    """Time that a thread may skip: nobody waits for a node that is known to be dead."""

    def __init__(self):
        self._skipped = threading.local()

    def monotonic(self):
        return time.monotonic() + getattr(self._skipped, "seconds", 0.0)

    def sleep(self, seconds):
        time.sleep(seconds)

    def skip(self, seconds):
        self._skipped.seconds = getattr(self._skipped, "seconds", 0.0) + seconds


class Watched:
    """A grid that keeps all bytes, tells the test who was heard, and skips the deadlines of the dead."""

    def __init__(self, grid, desk, clock):
        self._grid = grid
        self._desk = desk
        self._clock = clock

    def __getattr__(self, name):
        return getattr(self._grid, name)

    def until_connected(self, nodes):
        while len(list(self._grid.get_node_ids())) < nodes:
            time.sleep(0.1)

    def push_messages(self, messages):
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids):
        replies = list(self._grid.pull_messages(message_ids))
        for reply in replies:
            self._desk.record("wire/server", message_to_proto(reply).SerializeToString())
            self._desk.put(f"heard/{reply.metadata.reply_to_message_id}")
        silent = set(message_ids) - {reply.metadata.reply_to_message_id for reply in replies}
        if silent and all(self._desk.read(f"lost/{each}") is not None for each in silent):
            self._clock.skip(1000.0)
        return replies

    def send_and_receive(self, messages):
        waiting = set(self.push_messages(messages))
        while waiting:
            for reply in self.pull_messages(list(waiting)):
                waiting.remove(reply.metadata.reply_to_message_id)
                yield reply
            time.sleep(0.1)
