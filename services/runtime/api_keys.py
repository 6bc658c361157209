"""The text of an API key: `sk-sabueso-<public id>-<secret>`. The public id may be logged; the secret is shown once."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field

_PREFIX = "sk-sabueso-"
# Without those that look alike: a person may have to read it out.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_PUBLIC_LENGTH = 10
_SECRET_BYTES = 32
_FORM = re.compile(rf"{_PREFIX}[a-z0-9]{{4,16}}-[A-Za-z0-9_-]{{16,100}}")


@dataclass(frozen=True)
class NewKey:
    """A key that was just made. `text` is the secret: it goes to whoever asked for it, and nowhere else."""

    text: str = field(repr=False)

    @property
    def public_id(self) -> str:
        """Its part that may be shown."""
        return self.text.removeprefix(_PREFIX).partition("-")[0]

    @property
    def prefix(self) -> str:
        """What people recognise it by."""
        return _PREFIX + self.public_id

    @property
    def sha256(self) -> str:
        """What is kept of it, in hex."""
        return digest_of(self.text)


def mint() -> NewKey:
    """A new key with 256 random bits."""
    public_id = "".join(secrets.choice(_ALPHABET) for _ in range(_PUBLIC_LENGTH))
    return NewKey(f"{_PREFIX}{public_id}-{secrets.token_urlsafe(_SECRET_BYTES)}")


def digest_of(key: str) -> str:
    """SHA-256 of a key, in hex. Keys are random, so that a slow hash would protect nothing."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def may_be_issued(key: str) -> bool:
    """Whether a key has the form of those that the admin API makes; keys in files may have any form."""
    return _FORM.fullmatch(key) is not None


def holds_key(text: str) -> bool:
    """Whether a key of that form is somewhere in `text`."""
    return _FORM.search(text) is not None
