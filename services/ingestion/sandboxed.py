"""What the sandbox of ingestion loads before it forks: all parsers. Nobody else imports it."""

import sys
from types import ModuleType
from typing import cast

# No parser needs it, but openpyxl loads it where it is installed, and with it threads and 20 MiB.
sys.modules["numpy"] = cast(ModuleType, None)

from services.ingestion.parsed_rows import in_rows  # noqa: E402
from services.ingestion.parsers import parse as parsers  # noqa: E402

parse = in_rows(parsers.parse)
