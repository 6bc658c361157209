"""Names of MCP sessions. A name is signed and holds all there is to know, so that any gateway serves any session."""

import base64
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

_NONCE_BYTES, _EXPIRY_BYTES, _MAC_BYTES = 16, 6, 20
_BYTES = _NONCE_BYTES + _EXPIRY_BYTES + _MAC_BYTES
# Ended sessions that are remembered; an older one that comes back can do nothing that a new one could not.
_MAX_ENDED = 10_000


class Sessions:
    """Opens, checks and ends sessions. Nothing is kept of those that are open."""

    def __init__(self, secret: str, *, ttl_seconds: float = 86_400, clock: Callable[[], float] = time.time) -> None:
        """`secret`: the same for all gateways of an installation; `clock` gives seconds since the epoch."""
        # Of its own, so that no name is ever taken for something else that the secret signs.
        self._key = hmac.digest(secret.encode(), b"sabueso mcp session", "sha256")
        self._ttl = ttl_seconds
        self._clock = clock
        self._ended: OrderedDict[str, None] = OrderedDict()

    def open(self, tenant: str) -> str:
        """The name of a new session: 56 letters, digits, `-` and `_`."""
        expiry = int(self._clock() + self._ttl).to_bytes(_EXPIRY_BYTES)
        facts = secrets.token_bytes(_NONCE_BYTES) + expiry
        return base64.urlsafe_b64encode(facts + self._mac(facts, tenant)).decode()

    def holds(self, name: str, tenant: str) -> bool:
        """Whether `name` is an open session of `tenant`."""
        if name in self._ended:
            return False
        try:
            raw = base64.urlsafe_b64decode(name)
        except ValueError:
            return False
        # One spelling only: an ended session must not come back under another.
        if len(raw) != _BYTES or base64.urlsafe_b64encode(raw).decode() != name:
            return False
        facts, mac = raw[:-_MAC_BYTES], raw[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(facts, tenant)):
            return False
        return int.from_bytes(facts[_NONCE_BYTES:]) > self._clock()

    def end(self, name: str) -> None:
        """Closes a session that `holds` has confirmed."""
        self._ended[name] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)

    def _mac(self, facts: bytes, tenant: str) -> bytes:
        return hmac.digest(self._key, facts + tenant.encode(), "sha256")[:_MAC_BYTES]
