"""Reads a page for a tenant: fetches it politely, makes text of it in a sandbox, within one total time."""

import asyncio
import logging
import os
from dataclasses import dataclass, field
from typing import Any

from services.runtime.errors import DeadlineExceeded, NotPermitted, ServiceError
from services.runtime.sandbox import NoAnswer, Sandbox
from services.web_tool.fairness import Places, Turns
from services.web_tool.fetch import Fetcher, Page
from services.web_tool.media_types import Kind, kind_of, presentable
from services.web_tool.metrics import PAGES, STAGE_SECONDS
from services.web_tool.policy import Policy
from services.web_tool.robots import Robots

log = logging.getLogger(__name__)

# Each may take as much memory as the sandbox allows.
_MAX_PROCESSES = 4


@dataclass(frozen=True)
class PageText:
    """A page as text. All of it is untrusted: whoever wrote the page wrote it.

    `content` is the file itself where the page is a PDF (with its text), an office document or a picture (without).
    `charset` is empty for those. `removed_invisible`: something was taken out that a reader would not see, or disarmed.
    """

    final_url: str
    status_code: int
    content_type: str
    charset: str = ""
    title: str = ""
    text: str = ""
    truncated: bool = False
    removed_invisible: bool = False
    content: bytes = field(default=b"", repr=False)


class Reader:
    """Reads pages under policies. `start` it before the first page, `close` it at the end."""

    def __init__(
        self, fetcher: Fetcher, robots: Robots, sandbox: Sandbox, *, timeout_seconds: float, max_pages: int = 16
    ) -> None:
        """`sandbox` runs extraction.py. `max_pages` are read at a time, of one tenant two thirds; more are refused."""
        self._fetcher = fetcher
        self._robots = robots
        self._sandbox = sandbox
        self._timeout_seconds = timeout_seconds
        self._places = Places(max_pages)
        # More processes than processors would only make each of them late.
        self._processes = Turns(min(_MAX_PROCESSES, os.cpu_count() or 2))

    def start(self) -> None:
        """Starts the sandbox, so that the first page need not wait for it. Returns at once."""
        self._sandbox.start()

    async def close(self) -> None:
        """Ends the sandbox and what is running in it."""
        await asyncio.to_thread(self._sandbox.close)

    async def read(self, url: str, policy: Policy, max_chars: int, *, for_ingestion: bool = False) -> PageText:
        """The page as text, at most `max_chars` of it.

        `for_ingestion`: a person chose the URL, so that it may be of any shape, and wants the file, a picture too.

        Raises InvalidField (not a URL), NotPermitted (`rule`), NotFound, DependencyFailed (no answer, 5xx),
        DeadlineExceeded (`stage`) and Overloaded.
        """
        try:
            page = await self._read(url, policy, max_chars, for_ingestion)
        except ServiceError as error:
            rule = error.metadata.get("rule", "") if isinstance(error, NotPermitted) else ""
            PAGES.labels(f"{error.reason.lower()} {rule}".strip()).inc()
            raise
        PAGES.labels("read").inc()
        return page

    async def _read(self, url: str, policy: Policy, max_chars: int, for_ingestion: bool) -> PageText:
        target = policy.check_url(url)
        if not for_ingestion:
            policy.check_egress(target)
        try:
            with self._places.place("Too many pages are being read."):
                async with asyncio.timeout(self._timeout_seconds):
                    return await self._read_in_time(url, policy, max_chars, for_ingestion)
        except TimeoutError:
            message = f"The page was not read within {self._timeout_seconds:g} s."
            raise DeadlineExceeded(message, stage="fetch") from None

    async def _read_in_time(self, url: str, policy: Policy, max_chars: int, for_ingestion: bool) -> PageText:
        with STAGE_SECONDS.labels("fetch").time():
            page = await self._fetcher.fetch(url, policy, permit=lambda target: self._robots.check(target, policy))
        return await self._text_of(page, max_chars, for_ingestion)

    async def _text_of(self, page: Page, max_chars: int, for_ingestion: bool) -> PageText:
        kind = kind_of(page.content_type, page.body, pictures=for_ingestion)
        is_file = kind in ("pdf", "office", "picture")
        if is_file and page.truncated:
            raise NotPermitted("The file is larger than what is read of a page.", rule="size")
        found: dict[str, Any] = {}
        if kind not in ("empty", "office", "picture"):
            found = await self._extracted(page, kind, max_chars)
        return PageText(
            final_url=page.final_url,
            status_code=page.status_code,
            content_type=presentable(page.content_type),
            charset=found.get("charset", ""),
            title=found.get("title", ""),
            text=found.get("text", ""),
            truncated=page.truncated or found.get("truncated", False),
            removed_invisible=found.get("removed_invisible", False),
            content=page.body if is_file else b"",
        )

    async def _extracted(self, page: Page, kind: Kind, max_chars: int) -> dict[str, Any]:
        async with self._processes.turn():
            arguments = {"kind": kind, "content_type": page.content_type[:300], "url": page.final_url}
            try:
                with STAGE_SECONDS.labels("extract").time():
                    rows = await self._sandbox.run(page.body, **arguments, max_chars=max_chars)
                row: dict[str, Any] = next(rows)
            except NoAnswer as error:
                raise _unread(error) from None
        if "rule" in row:
            raise NotPermitted(row["message"], rule=row["rule"])
        return row


def _unread(error: NoAnswer) -> DeadlineExceeded | NotPermitted:
    match error.cause:
        case "time":
            return DeadlineExceeded("Making text of the page took too long.", stage="extract")
        case "memory" | "size":
            return NotPermitted("Making text of the page takes too much memory.", rule="content")
        case "depth":
            return NotPermitted("The page is nested too deeply.", rule="content")
        case "crash" | "error":
            log.warning("a page could not be made text of", extra={"cause": error.detail})
            return NotPermitted("The page is damaged: no text can be made of it.", rule="content")
