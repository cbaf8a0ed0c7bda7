"""Stolen, restored and lost keys, through the real `protect`, key files and a signed roster."""

import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

from f2ed import PeerError
from f2ed.cli.forget import forget
from f2ed.deployment import key_memory
from f2ed.deployment.state_store import FileStore, Kept, decode_kept
from f2ed.protocol.aggregation.task import agreed_encoding
from f2ed.protocol.primitives.crypto import digest, ratchet
from f2ed.protocol.primitives.ring import Ring
from f2ed.protocol.quantization.encoding import decode_mean
from f2ed.protocol.secagg.keys import pair_mask
from f2ed.protocol.secagg.masks import add_masks
from f2ed.protocol.secagg.messages import AskChains, AskUpload, Upload
from f2ed.protocol.secagg.schemes import phases
from f2ed.protocol.secagg.state import load
from f2ed.protocol.secagg.terms import bind
from tests.flower.fake_grid import change, fingerprint, model
from tests.flower.lying_server import RUN, LyingServer
from tests.protocol.secagg.agree import agree

VICTIM, MEMBERS, COORDINATES = 2, 4, 26
EPOCH = 3


@pytest.fixture
def server(tmp_path):
    return LyingServer(tmp_path, MEMBERS, key_rounds=EPOCH)


def lead(server, round_, keys=None):
    """Lead a round; return its terms, its keys and the uploads."""
    terms = server.terms(round_, epoch=round_ // EPOCH)
    keys = keys or agree(terms, server.roster.keys, server._reply)
    return terms, keys, {client: server.ask(client, AskUpload(terms, *keys), Upload) for client in terms.members}


def opened(terms, uploads):
    """Return the mean that these uploads give, or None where their sum is garbage."""
    total = Ring(terms.ring).zeros(terms.length)
    for upload in uploads:
        Ring(terms.ring).add_packed(total, upload.payload)
    return decoded(terms, total, len(uploads))


def decoded(terms, words, clients):
    encoding = agreed_encoding(terms, COORDINATES)
    try:
        return decode_mean(words, encoding, clients=len(terms.members), survivors=clients).mean
    except PeerError:
        return None


def key_file(server, client=VICTIM):
    (found,) = (path for path in Path(server.settings[client]["f2ed-keys"]).glob("keys-*") if not path.suffix)
    return found


def stolen(server, client=VICTIM):
    """Return the keys in a node's file, as whoever copies it reads them."""
    _, _, kept = msgspec.msgpack.decode(key_file(server, client).read_bytes())
    return load(decode_kept(kept, "a stolen file").state, server.roster.job(RUN), phases()).key


def unmasked(server, terms, upload, key, chains):
    """Take the victim's masks off with stolen chains; return its update, or None where what is left is garbage."""
    words = Ring(terms.ring).zeros(terms.length)
    Ring(terms.ring).add_packed(words, upload.payload)
    salt = digest(bind(terms, server.roster.keys, fingerprint(model())), key.keyset)
    pairs = zip(terms.members, chains, strict=True)
    masks = [pair_mask(salt, chain, VICTIM, peer) for peer, chain in pairs if peer != VICTIM]
    add_masks(words, [mask._replace(negative=not mask.negative) for mask in masks])
    return decoded(terms, words, 1)


def test_a_stolen_state_opens_no_round_before_it_and_none_after_the_epoch(server):
    terms, keys, uploads = {}, None, {}
    terms[0], keys, uploads[0] = lead(server, 0)
    terms[1], _, uploads[1] = lead(server, 1, keys)
    key = stolen(server)
    for round_ in range(2, EPOCH + 1):
        terms[round_], _, uploads[round_] = lead(server, round_, keys if round_ < EPOCH else None)
    assert all(opened(terms[round_], uploads[round_].values()) is not None for round_ in terms)
    found, chains = {}, key.chains
    for ahead in range(EPOCH + 2):
        for round_, each in terms.items():
            if (update := unmasked(server, each, uploads[round_][VICTIM], key, chains)) is not None:
                found[round_] = (ahead, update)
        chains = tuple(chain and ratchet(chain) for chain in chains)
    # The theft is real: the round after it, and nothing else of four, opens.
    assert set(found) == {2}
    assert found[2][0] == 0
    np.testing.assert_allclose(found[2][1], change(VICTIM, 1), atol=1e-4)


def test_the_private_keys_are_gone_as_soon_as_the_agreement_is_complete(server):
    terms = server.terms(0)
    seeds = []

    def ask(client, request):
        reply = server._reply(client, request)
        if client == VICTIM:
            seeds.append(stolen(server).seed)
        return reply

    agree(terms, server.roster.keys, ask)
    assert [len(seed) for seed in seeds] == [32, 32, 0]
    assert seeds[0] not in key_file(server).read_bytes()
    assert stolen(server).peers == ()


@pytest.mark.parametrize("restored", ["after a reboot", "while it runs"])
def test_a_disk_that_is_restored_never_repeats_a_mask(server, monkeypatch, tmp_path, restored):
    """The whole state folder goes back to before the upload, the last round with it."""
    folder = Path(server.settings[VICTIM]["f2ed-keys"])
    terms = server.terms(0)
    keys = agree(terms, server.roster.keys, server._reply)
    shutil.copytree(folder, tmp_path / "backup")
    first = server.ask(VICTIM, AskUpload(terms, *keys), Upload)
    assert first is not None
    if restored == "while it runs":
        backup = tmp_path / "backup" / key_file(server).name
        boot, at, kept = msgspec.msgpack.decode(backup.read_bytes())
        # Rather than wait: the file says that it was written a minute before it came to be here.
        backup.write_bytes(msgspec.msgpack.encode((boot, at - 60 * 10**9, kept)))
    else:
        (tmp_path / "boot_id").write_text("the next boot\n")
        monkeypatch.setattr(key_memory, "_BOOT", tmp_path / "boot_id")
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "backup", folder)
    assert server.ask(VICTIM, AskUpload(terms, *keys), Upload) is None
    assert "holds no keys of epoch 0" in server.refusals[VICTIM]
    _, fresh, uploads = lead(server, 0)
    assert fresh.keyset != keys.keyset
    assert uploads[VICTIM].payload != first.payload


def test_keys_that_were_forgotten_cost_one_round_and_no_secret(server, tmp_path, capsys):
    terms, keys, uploads = lead(server, 0)
    assert opened(terms, uploads.values()) is not None
    forget(
        tmp_path / "roster.json",
        key=Path(server.settings[VICTIM]["f2ed-key"]),
        keys=Path(server.settings[VICTIM]["f2ed-keys"]),
    )
    assert "Erased the keys of 1 job" in capsys.readouterr().out
    _, _, uploads = lead(server, 1, keys)
    assert uploads[VICTIM] is None
    assert "holds no keys of epoch 0 that were made in round 0" in server.refusals[VICTIM]
    terms, fresh, uploads = lead(server, 2)
    assert fresh.since == 2
    assert opened(terms, uploads.values()) is not None


def test_fresh_keys_are_agreed_by_all_members_or_nobody_uploads_under_them(server):
    """A server that gives some members fresh keys, and leaves the victim with the old ones, opens nothing."""
    _, keys, _ = lead(server, 0)
    terms = server.terms(1)
    with pytest.raises(PeerError, match="gave no usable key"):
        agree(terms, server.roster.keys, lambda c, request: b"" if c == VICTIM else server._reply(c, request))
    assert server.ask(VICTIM, AskUpload(terms, *keys), Upload) is not None
    others = [server.ask(client, AskUpload(terms, *keys), Upload) for client in terms.members if client != VICTIM]
    assert others == [None] * 3


def test_ciphertexts_that_the_server_swaps_are_refused(server):
    terms = server.terms(0)

    def ask(client, request):
        if isinstance(request, AskChains) and client == VICTIM:
            wraps = tuple(msgspec.structs.replace(each, ciphertext=bytes(1088)) for each in request.wraps)
            request = msgspec.structs.replace(request, wraps=wraps)
        return server._reply(client, request)

    dropped = {}
    with pytest.raises(PeerError, match="have no chains"):
        agree(terms, server.roster.keys, ask, dropped)
    assert "signed another ciphertext for this client" in dropped[VICTIM]


def test_a_new_serial_leaves_no_keys_of_the_old_one(server):
    lead(server, 0)
    old = key_file(server)
    with FileStore(old.parent, server.roster.lineage, server.roster.serial + 1).open("job") as desk:
        desk.write(Kept(b"new"))
    assert not old.exists()
