"""Two answers of one node at the same time, after somebody removed the lock file: one of them leaves at most."""

from f2ed.protocol.secagg.messages import AskUpload, Upload
from tests.flower.fake_grid import Node, user_app
from tests.flower.lying_server import LyingServer
from tests.protocol.secagg.agree import agree

VICTIM = 2


def test_a_node_whose_lock_file_is_removed_does_not_answer_one_round_twice(tmp_path):
    """The second answer begins while the first one trains; both would carry the same masks."""
    lying = LyingServer(tmp_path, 4)
    terms = lying.terms(0)
    keys = agree(terms, lying.roster.keys, lying._reply)
    uploads, request = [], AskUpload(terms, *keys)

    def meanwhile(_message, _context):
        for lock in (tmp_path / f"client_{VICTIM}.state").glob("*.lock"):
            lock.unlink()
        lying.nodes[VICTIM] = Node(VICTIM, user_app(), lying.settings[VICTIM])
        uploads.append(lying.ask(VICTIM, request, Upload))

    lying.nodes[VICTIM] = Node(VICTIM, user_app(fault=meanwhile), lying.settings[VICTIM])
    uploads.append(lying.ask(VICTIM, request, Upload))
    assert len(uploads) == 2
    assert sum(upload is not None for upload in uploads) == 1
