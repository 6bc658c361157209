"""What a document is called, which language it speaks, and where its sections begin, from file and sender together."""

from dataclasses import replace
from pathlib import PurePath

from services.ingestion import language
from services.ingestion.jobs import Submission
from services.ingestion.parsed import Block, Parsed


def below_title(parsed: Parsed) -> list[Block]:
    """The blocks, their sections without the document's own title: whoever sees a section sees the title beside it."""
    own = (parsed.title,)
    return [replace(block, section=block.section[1:]) if block.section[:1] == own else block for block in parsed.blocks]


def title_of(submission: Submission, parsed: Parsed) -> str:
    """As the sender says, else as the document says, else the file name."""
    own = " ".join(parsed.title.split())[:300]
    return submission.title or own or PurePath(submission.filename).stem or submission.document_id


def language_of(submission: Submission, parsed: Parsed) -> str:
    """In which the words are stemmed, too: retrieval stems queries in the languages of the documents."""
    if submission.language:
        return submission.language
    text = "\n".join(block.text for block in parsed.blocks[:2000])[:200_000]
    # What a page declares is often the template's language, so the text itself is asked first.
    return language.detect(text) or language.known(parsed.language) or submission.collection_language
