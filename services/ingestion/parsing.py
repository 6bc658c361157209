"""Has files parsed in processes that can be killed: a hostile file takes down nothing but its own."""

import asyncio
import errno
import logging
from pathlib import Path

from services.ingestion.parsed import Parsed, Unreadable
from services.ingestion.parsed_rows import parsed_from
from services.runtime.errors import DependencyFailed
from services.runtime.sandbox import NoAnswer, Refused, Sandbox

log = logging.getLogger(__name__)

_LONGEST_NAME = 1024
# Of the machine's making: the file is not to blame.
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EAGAIN}


class Parser:
    """Limits of one parse: address space in bytes, wall-clock and CPU time in seconds.

    `entry` names the function that reads a file: bytes, name and media type in, rows (parsed_rows.py) out.
    """

    def __init__(
        self, memory_bytes: int, timeout_seconds: float, *, entry: str = "services.ingestion.sandboxed:parse"
    ) -> None:
        self._memory_bytes = memory_bytes
        self._timeout_seconds = timeout_seconds
        # The answer is all text of the file with the headings above each block.
        self._sandbox = Sandbox(entry, memory_bytes=memory_bytes, timeout_seconds=timeout_seconds)

    def start(self) -> None:
        """Starts the sandbox, so that the first file need not wait for the libraries. Returns at once."""
        self._sandbox.start()

    def close(self) -> None:
        """Ends the sandbox and whatever is being parsed. The next `parse` starts another."""
        self._sandbox.close()

    @property
    def server_id(self) -> int:
        """Process id of the sandbox's server, 0 while there is none."""
        return self._sandbox.server_id

    async def parse(self, path: Path, filename: str, content_type: str) -> Parsed:
        """Blocks of the file at `path`. Raises Unreadable with a reason for the person who sent it.

        Raises DependencyFailed when the sandbox cannot be kept running, or the machine is short of something: the file
        is not to blame.
        """
        names = {"filename": filename[-_LONGEST_NAME:], "content_type": content_type[:_LONGEST_NAME]}
        try:
            rows = await self._sandbox.run(path, **names)
            return await asyncio.to_thread(parsed_from, rows)
        except Refused as error:
            raise Unreadable(str(error)) from None
        except NoAnswer as error:
            raise Unreadable(self._reason(error)) from None
        except OSError as error:
            log.warning("parsing failed", extra={"cause": errno.errorcode.get(error.errno or 0, type(error).__name__)})
            if error.errno in _SHORTAGES:
                raise DependencyFailed("The service is short of files, memory or disk.", dependency="parsing") from None
            raise Unreadable("The file is damaged: reading it failed.") from None
        except DependencyFailed:
            raise DependencyFailed("The parsing server does not run.", dependency="parsing") from None

    def _reason(self, error: NoAnswer) -> str:
        mebibytes = self._memory_bytes // 2**20
        match error.cause:
            case "time":
                return f"Reading the file took longer than {self._timeout_seconds:g} s; split it up."
            case "memory":
                return f"Reading the file took more than {mebibytes} MiB of memory; split it up."
            case "depth":
                return "The file is nested too deeply."
            case "size":
                return "The file holds too much text; split it up."
            case "crash":
                # PDFium ends the process when it gets no memory.
                log.warning("the parsing process was ended", extra={"cause": error.detail})
                return f"The file is damaged, or reading it takes more than {mebibytes} MiB of memory."
            case "error":
                log.warning("parsing failed", extra={"cause": error.detail})
                return "The file is damaged: reading it failed."
