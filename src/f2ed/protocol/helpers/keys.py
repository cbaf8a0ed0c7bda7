"""Keys of a round: each party's own, those of pairs of parties, and those that expand a client's seeds."""

from typing import final

from f2ed.core.errors import PeerError, Refusal
from f2ed.protocol.helpers.messages import Opening
from f2ed.protocol.helpers.terms import JUDGE, MIXER, ROLES, SERVER, Role, Terms
from f2ed.protocol.primitives.crypto import derive, digest, seal, seal_into, sign, unseal, verify
from f2ed.protocol.primitives.fields import fields, unsigned
from f2ed.protocol.primitives.hybrid import HybridKey, PublicKeys, check_public_keys
from f2ed.protocol.sharding import ClientId

__all__ = [
    "BLAME",
    "SHOWN",
    "Openings",
    "PairKeys",
    "check_openings",
    "commitment",
    "joint_seed",
    "make_opening",
    "mask_key",
    "opening_text",
    "party_key",
    "sealed_with",
    "seed_commitment",
]

Openings = tuple[Opening, Opening, Opening]
SHOWN, BLAME = b"shown", b"blame"
"""Steps of a blame."""


def party_key(seed: bytes, context: bytes, role: Role, terms: Terms) -> HybridKey:
    """Return the keys of a party for one round."""
    return HybridKey(seed, salt=context, label=b"helpers " + role.encode(), kind=terms.agreement)


def make_opening(
    role: Role,
    terms: Terms,
    context: bytes,
    *,
    signing_key: bytes,
    seed: bytes,
    half: bytes = b"",
    seen: tuple[int, ...] = (),
) -> Opening:
    """Return a party's signed opening; `half` is its half of the joint seed."""
    public = party_key(seed, context, role, terms).public
    committed = seed_commitment(context, role, half) if half else b""
    unsigned_ = Opening(public.exchange, public.kem, committed, seen, bytes(64))
    return Opening(
        public.exchange, public.kem, committed, seen, sign(signing_key, opening_text(context, role, unsigned_))
    )


def opening_text(context: bytes, role: Role, opening: Opening) -> bytes:
    """Return what is signed; the context covers the policy, the operators and the roles."""
    seen = b"".join(map(unsigned, opening.seen))
    return fields(
        b"f2ed helpers opening 1", context, role.encode(), opening.exchange, opening.kem, opening.commitment, seen
    )


def check_openings(openings: Openings, terms: Terms, context: bytes) -> None:
    """Refuse openings that the three parties did not sign for this context."""
    for role, opening in zip(ROLES, openings, strict=True):
        try:
            verify(terms.key_of(role), opening_text(context, role, opening), opening.signature)
            check_public_keys(PublicKeys(opening.exchange, opening.kem), terms.agreement)
        except PeerError as error:
            raise Refusal(f"the opening of the {role} comes with {error}") from None
        if bool(opening.commitment) != (role != SERVER):
            raise Refusal(f"the opening of the {role} has a commitment of {len(opening.commitment)} bytes")
    if len({opening.exchange for opening in openings}) < 3:
        raise Refusal("two parties with equal keys: one impersonates the other")


def seed_commitment(context: bytes, role: Role, half: bytes) -> bytes:
    """Return the commitment to a helper's half of the joint seed."""
    return digest(b"f2ed helpers half", context, role.encode(), half)


def joint_seed(mixer: bytes, judge: bytes) -> bytes:
    """Return the seed of sketch and tests: unpredictable unless both helpers tell."""
    return digest(b"f2ed helpers joint seed", mixer, judge)


def commitment(context: bytes, client: ClientId, role: Role, seed: bytes) -> bytes:
    """Return the commitment to a client's seed, which the judge shares with the mixer or the server."""
    return digest(b"f2ed helpers seed", context, unsigned(client), role.encode(), seed)


def mask_key(context: bytes, client: ClientId, role: Role, seed: bytes) -> bytes:
    """Return the key that expands a client's seed, bound to the context, the client and who shares it."""
    return derive(seed, salt=context, info=fields(b"f2ed helpers mask", unsigned(client), role.encode()))


@final
class PairKeys:
    """What a party shares with the two others, for one set of clients in one context."""

    def __init__(self, role: Role, key: HybridKey, openings: Openings, *, context: bytes, clients: bytes) -> None:
        self._role, self._context, self._clients = role, context, clients
        self._shared = {
            other: derive(
                key.exchange(openings[ROLES.index(other)].exchange),
                salt=context,
                info=fields(b"f2ed helpers pair", *sorted((role.encode(), other.encode())), clients),
            )
            for other in ROLES
            if other != role
        }

    def __repr__(self) -> str:
        """Show no secret."""
        return f"PairKeys({self._role}, <secret>)"

    def common(self, other: Role, what: bytes) -> bytes:
        """Return a key that both derive: of masks, smudges and the random row."""
        return derive(self._shared[other], salt=self._clients, info=fields(b"common", what))

    def seal(self, to: Role, step: bytes, plain: bytes) -> bytes:
        """Seal the only message of this step to another party."""
        return seal(self._step_key(self._role, to, step), plain, associated=self._associated(self._role, to, step))

    def seal_into(self, out: bytearray, to: Role, step: bytes, plain: bytes | bytearray) -> None:
        """Seal as `seal` does, into memory that is used again."""
        associated = self._associated(self._role, to, step)
        seal_into(out, self._step_key(self._role, to, step), plain, associated=associated)

    def unseal(self, sender: Role, step: bytes, sealed: bytes | memoryview) -> bytes:
        """Open what another party sealed at this step."""
        associated = self._associated(sender, self._role, step)
        try:
            return unseal(self._step_key(sender, self._role, step), sealed, associated=associated)
        except (PeerError, ValueError):
            raise PeerError(
                f"what the {sender} sent at step {step.decode()} does not open: corrupted, or not from it"
            ) from None

    def reopen(self, to: Role, step: bytes, sealed: bytes) -> bytes:
        """Open what this party itself sealed at this step."""
        return unseal(self._step_key(self._role, to, step), sealed, associated=self._associated(self._role, to, step))

    def for_blame(self) -> tuple[bytes, bytes, bytes]:
        """Return what a mixer needs in a blame step after its seeds are erased; it opens nothing else.

        The smudge that it shares with the server, the key of what the server shows, and the key to the judge.
        """
        shown = self._step_key(SERVER, MIXER, SHOWN)
        return self.common(SERVER, b"blame"), shown, self._step_key(MIXER, JUDGE, BLAME)

    def _step_key(self, sender: Role, to: Role, step: bytes) -> bytes:
        other = to if sender == self._role else sender
        return derive(self._shared[other], salt=self._clients, info=fields(b"step", step, sender.encode(), to.encode()))

    def _associated(self, sender: Role, to: Role, step: bytes) -> bytes:
        return sealed_with(self._context, self._clients, step, sender, to)


def sealed_with(context: bytes, clients: bytes, step: bytes, sender: Role, to: Role) -> bytes:
    """Return the data that every sealed message between parties is bound to."""
    return fields(context, clients, step, sender.encode(), to.encode())
