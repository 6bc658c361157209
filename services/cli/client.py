"""Speaks to the gateway as any client would: OpenAI's SDK for answers, plain HTTP for the rest."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self, cast

import httpx2
import openai

from services.cli.config import Settings

_WAIT_SECONDS = 2.0


class Failed(Exception):
    """The gateway refused or cannot be reached; the message is for a person."""


class Unreachable(Failed):
    """The gateway cannot be reached."""


class Refused(Failed):
    """The gateway answered with an error. `wait_seconds`: when the same call may succeed; None when it never will."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(_reason(response))
        self.status_code = response.status_code
        self.wait_seconds: float | None = None
        if response.status_code in (429, 502, 503, 504):
            said = response.headers.get("retry-after", "")
            self.wait_seconds = float(said) if said.isdecimal() else _WAIT_SECONDS


def verification(settings: Settings) -> ssl.SSLContext | bool:
    """By whom the gateway's certificate must be signed. Raises Failed when that file cannot be used."""
    if not settings.url.startswith("https:"):
        # Trusts nobody: reading all authorities takes longer than a call.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not settings.ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise Failed(f"SABUESO_CA_FILE {settings.ca_file}: {error}") from None


class Client:
    """A connection to one gateway with one key."""

    def __init__(self, settings: Settings) -> None:
        if not settings.api_key.get_secret_value():
            raise Failed("No API key. Set SABUESO_API_KEY, or run `make up` in this folder first.")
        self._settings = settings
        key = settings.api_key.get_secret_value()
        self._http = httpx2.Client(
            base_url=f"{settings.url.rstrip('/')}/v1",
            headers={"authorization": f"Bearer {key}"},
            timeout=httpx2.Timeout(120, connect=5),
            trust_env=False,
            verify=verification(settings),
        )
        self._openai = openai.OpenAI(
            base_url=f"{settings.url.rstrip('/')}/v1",
            api_key=key,
            max_retries=0,
            timeout=600,
            http_client=httpx2.Client(trust_env=False, verify=verification(settings)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def ask(self, question: str, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of a streamed answer, as plain dictionaries."""
        try:
            stream = self._openai.chat.completions.create(
                model="sabueso",
                messages=[{"role": "user", "content": question}],
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"sabueso": {"include_steps": True, **options}},
            )
            for chunk in stream:
                yield chunk.model_dump()
        except openai.APIStatusError as error:
            raise Failed(_reason(error.response)) from None
        except openai.APIConnectionError as error:
            raise Failed(self._unreachable(error)) from None
        except openai.APIError as error:
            # The stream had begun, so the failure came as an event in it.
            raise Failed(f"The answer broke off: {error.message}") from None

    def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """One JSON call below /v1."""
        try:
            response = self._http.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise Unreachable(self._unreachable(error)) from None
        if response.is_error:
            raise Refused(response)
        return cast(dict[str, Any], response.json())

    def upload(self, path: Path, fields: dict[str, str]) -> dict[str, Any]:
        """Sends one file for ingestion."""
        name = path.name.encode(errors="replace").decode()
        with path.open("rb") as content:
            return self.call("POST", "/documents", files={"file": (name, content)}, data=fields)

    def documents(self) -> Iterator[dict[str, Any]]:
        """All documents, page by page; those that are not ready, or failed, come first."""
        after: str | None = ""
        while after is not None:
            page = self.call("GET", "/documents", params={"limit": 1000, "after": after})
            yield from page["data"]
            after = page["after"] if page["has_more"] else None

    def close(self) -> None:
        """Breaks off what is under way."""
        self._http.close()
        self._openai.close()

    def ready(self) -> dict[str, Any]:
        """What /readyz says, whether or not it is ready."""
        try:
            url = f"{self._settings.url.rstrip('/')}/readyz"
            response = httpx2.get(url, timeout=10, trust_env=False, verify=verification(self._settings))
            return {"status_code": response.status_code, **response.json()}
        except (httpx2.HTTPError, ValueError) as error:
            raise Failed(self._unreachable(error)) from None

    def _unreachable(self, error: Exception) -> str:
        cause = error.__cause__ or error
        return f"The gateway at {self._settings.url} cannot be reached ({cause}). Is it running? `make status` tells."


def _reason(response: httpx2.Response) -> str:
    try:
        error = response.json()["error"]
        return f"{error['message']} ({response.status_code} {error['code']})"
    except (ValueError, KeyError, TypeError):
        return f"The gateway answered {response.status_code}."
