"""The web page: static files of one folder, for whatever no route takes."""

from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Message, Receive, Scope, Send

# The page holds a key: nothing but its own files may run in it, and nobody may frame it.
_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"referrer-policy", b"no-referrer"),
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
