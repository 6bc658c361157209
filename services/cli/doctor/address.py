"""Is the address right, does the gateway answer there, and is what stands before it in order: TLS, clock, version."""

import ipaddress
import re
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from services.cli.client import verification
from services.cli.config import Settings
from services.cli.doctor.findings import Finding, warning, well, wrong
from services.cli.json_shapes import mapping
from services.runtime.release import VERSION

_SECONDS = 10
_EXPIRES_SOON_DAYS = 21
# The header Date has whole seconds, and an answer takes its time.
_SKEW_WARNED_SECONDS, _SKEW_WRONG_SECONDS = 5, 60


def settings_faults(settings: Settings) -> Iterator[Finding]:
    """Mistakes that everybody makes once. Nothing is asked."""
    parts = urlsplit(settings.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        yield wrong(
            "settings",
            f"SABUESO_URL is no address: `{settings.url}`",
            fix="Say scheme, host and port, such as https://sabueso.example.internal.",
        )
    elif parts.path.rstrip("/").endswith("/v1"):
        yield wrong(
            "settings", "SABUESO_URL ends in /v1", why="The command line adds it.", fix="Leave /v1 out of SABUESO_URL."
        )
    elif parts.scheme == "http" and not _stays_inside(parts.hostname):
        yield warning(
            "settings",
            f"the key travels to {parts.hostname} unencrypted",
            why="SABUESO_URL begins with http://.",
            fix="Put TLS before the gateway (Ingress or Gateway API) and use https://.",
        )
    key = settings.api_key.get_secret_value()
    if not key:
        yield wrong("settings", "there is no API key", fix="Set SABUESO_API_KEY; `sabueso keys hash` makes a key.")
    elif re.search(r"[\s\"']", key) or key.lower().startswith("bearer"):
        yield wrong(
            "settings",
            "SABUESO_API_KEY holds more than the key",
            why="There is a blank, a quote or `Bearer` in it.",
            fix="Set the bare key. A Secret made with `echo` ends in a line break: use `printf`, or --from-literal.",
        )


def _stays_inside(host: str) -> bool:
    """On this machine, or a name that only a cluster knows."""
    if host == "localhost" or "." not in host.strip("[]") or host.endswith((".svc", ".svc.cluster.local")):
        return ":" not in host or _is_loopback(host)
    return _is_loopback(host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reached(settings: Settings) -> Iterator[Finding]:
    """One call of /healthz. The last finding is wrong when nothing else needs to be tried."""
    asked_at = datetime.now(UTC)
    try:
        answer = httpx2.get(
            f"{settings.url.rstrip('/')}/healthz",
            timeout=_SECONDS,
            trust_env=False,
            verify=verification(settings),
        )
    except httpx2.HTTPError as error:
        cause = error.__cause__ or error
        yield wrong(
            "gateway",
            f"{settings.url} does not answer",
            why=f"{type(error).__name__}: {cause}",
            fix="Is it running (`make status`, `kubectl get pods`), is the port forwarded, does a NetworkPolicy or "
            "a proxy stand between?",
        )
        return
    if answer.status_code != 200:
        yield wrong(
            "gateway",
            f"{settings.url}/healthz answers {answer.status_code}",
            why="Another program listens there, or an ingress finds no ready pod.",
            fix="Compare SABUESO_URL with the Service, Ingress or HTTPRoute of the gateway.",
        )
        return
    yield from clock(answer.headers.get("date", ""), asked_at, datetime.now(UTC))
    yield well("gateway", f"{settings.url} answers")


def clock(date: str, asked_at: datetime, answered_at: datetime) -> Iterator[Finding]:
    """The gateway's clock against ours. `date`: header of the answer; without one nothing is said."""
    try:
        theirs = parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:
        return
    # Anywhere between question and answer is right.
    seconds = max((asked_at - theirs).total_seconds(), (theirs - answered_at).total_seconds(), 0)
    if seconds <= _SKEW_WARNED_SECONDS:
        yield well("clock", "agrees with the gateway's")
        return
    tell = wrong if seconds > _SKEW_WRONG_SECONDS else warning
    yield tell(
        "clock",
        f"differs from the gateway's by {seconds:.0f} s",
        why="Expiry of keys, tokens of an identity provider and limits a minute go by the clock.",
        fix="Run chrony or systemd-timesyncd here and on the nodes.",
    )


def version(settings: Settings) -> Iterator[Finding]:
    """Gateway and command line should be of one release."""
    url = f"{settings.url.rstrip('/')}/openapi.json"
    try:
        answer = httpx2.get(url, timeout=_SECONDS, trust_env=False, verify=verification(settings))
        theirs = str(mapping(mapping(answer.json()).get("info")).get("version", ""))
    except (httpx2.HTTPError, ValueError):
        theirs = ""
    if not theirs:
        yield warning("version", "the gateway does not say its version", fix="Is /openapi.json shut off by a proxy?")
    elif theirs != VERSION:
        yield warning(
            "version",
            f"the gateway is {theirs}, this command {VERSION}",
            fix="Use the command of the gateway's release; docs/upgrading.md.",
        )
    else:
        yield well("version", f"{VERSION}, here and there")


def certificate(settings: Settings, now: datetime) -> Iterator[Finding]:
    """How long the certificate of an https address is valid, and whether we trust it. `now` has a time zone."""
    parts = urlsplit(settings.url)
    if parts.scheme != "https" or not parts.hostname:
        return
    trusted = ssl.create_default_context(cafile=settings.ca_file or None)
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout=_SECONDS) as connection,
            trusted.wrap_socket(connection, server_hostname=parts.hostname) as secured,
        ):
            until = str(mapping(secured.getpeercert()).get("notAfter", ""))
    except ssl.SSLCertVerificationError as error:
        yield wrong(
            "tls",
            "the certificate is not accepted",
            why=error.verify_message or str(error),
            fix="Renew it, or name your own authority in SABUESO_CA_FILE (a PEM file).",
        )
        return
    except (OSError, ssl.SSLError) as error:
        yield wrong("tls", "there is no TLS at that address", why=str(error), fix="Is http:// meant, or another port?")
        return
    ends = datetime.fromtimestamp(ssl.cert_time_to_seconds(until), UTC)
    days = (ends - now).total_seconds() / 86400
    if days < _EXPIRES_SOON_DAYS:
        yield warning(
            "tls",
            f"the certificate ends in {days:.0f} days ({ends:%Y-%m-%d})",
            fix="Renew it now; see why cert-manager, or whoever renews it, has not.",
        )
    else:
        yield well("tls", f"the certificate is valid until {ends:%Y-%m-%d}")


def key_file_is_open(env_file: Path) -> Iterator[Finding]:
    """The file with the key should be nobody else's to read."""
    if env_file.is_file() and env_file.stat().st_mode & 0o077:
        yield warning("settings", f"others may read {env_file}", fix=f"chmod 600 {env_file}")
