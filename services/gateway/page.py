"""The web page: static files of one folder, for whatever no route takes."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

# The page holds a key: nothing but its own files may run in it, no text becomes code, and nobody may frame it.
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
_HEADERS = [
    (b"content-security-policy", "; ".join(f"{name} {value}" for name, value in _POLICY.items()).encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
    # Asked for anew each time, and answered with 304: else new modules meet old ones after an update.
    (b"cache-control", b"no-cache"),
]


class Page:
    """Serves `index.html` at `/` and the other files beside it; 404 for all else, whatever the method."""

    def __init__(self, folder: Path) -> None:
        """`folder` may be missing: then there is no page."""
        self._files = StaticFiles(directory=folder, html=True) if folder.is_dir() else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._files is None or scope["method"] not in ("GET", "HEAD") or scope["path"].startswith("/v1/"):
            raise HTTPException(404)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        await self._files(scope, receive, send_guarded)
