"""The parsing process: limits itself, reads one file, writes what it understood as JSON. Knows nothing of the service.

`python -m services.ingestion.parse FILE FILENAME CONTENT_TYPE MEMORY_BYTES CPU_SECONDS`
"""

import json
import os
import resource
import sys
from pathlib import Path

from services.ingestion import formats
from services.ingestion.parsed import Parsed, Unreadable


def parse(content: bytes, filename: str = "", content_type: str = "") -> Parsed:
    """Blocks of a file of any supported format. Raises Unreadable with what to do about it."""
    if not content.strip(b" \t\r\n\0"):
        raise Unreadable("The file is empty.")
    # Each format brings its own libraries: only those that are needed are loaded.
    match formats.detect(content, filename, content_type):
        case "pdf":
            from services.ingestion.parse_pdf import parse_pdf

            parsed = parse_pdf(content)
        case "docx":
            from services.ingestion.parse_docx import parse_docx

            parsed = parse_docx(content)
        case "html":
            from services.ingestion.parse_html import parse_html

            parsed = parse_html(formats.decode_html(content))
        case "md":
            from services.ingestion.parse_markdown import parse_markdown

            parsed = parse_markdown(formats.decode(content))
        case _:
            from services.ingestion.parse_text import parse_text

            parsed = parse_text(formats.decode(content))
    if not any(character.isalnum() for block in parsed.blocks for character in block.text):
        raise Unreadable("The file holds no text.")
    return parsed


def main() -> None:
    """Writes `{"parsed": …}` or `{"unreadable": reason}`. Ends with status 3 when the memory is used up."""
    path, filename, content_type, memory_bytes, cpu_seconds = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory_bytes), int(memory_bytes)))
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        answer = {"parsed": parse(Path(path).read_bytes(), filename, content_type).to_json()}
    except Unreadable as error:
        answer = {"unreadable": str(error)}
    except RecursionError:
        answer = {"unreadable": "The file is nested too deeply."}
    except MemoryError:
        os._exit(3)
    # Lone surrogates of a broken file would otherwise end the parent's decoding.
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=True).encode())


if __name__ == "__main__":
    main()
