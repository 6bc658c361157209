"""Counts that an answer makes over its evidence: how many documents were found, and how many of them say something."""

import re
from collections.abc import Mapping
from decimal import Decimal

from services.orchestrator.citing.figures import Figure, Kind
from services.orchestrator.citing.source_text import SourceText
from services.orchestrator.citing.statement import Statement, is_foreign
from services.orchestrator.citing.words import key
from services.orchestrator.results import Page, Passage, Source
from services.runtime.expressions.folding import fold
from services.runtime.expressions.quantities import quantities

_COUNTED = re.compile(
    r"\b(?:documents?|documentos?|contracts?|contratos?|polic(?:y|ies)|politicas?|files?|archivos?|reports?|informes?"
    r"|passages?|pasajes?|fragmentos?|extracts?|sections?|secciones|pages?|paginas?|sites?|sitios?|articles?|articulos?"
    r"|sources?|fuentes?|results?|resultados?|hits?|records?|registros?)\b"
)
_TIMES = re.compile(r"\s*(?:times|veces|occurrences|apariciones|ocasiones)\b")
_OF_ALL = re.compile(
    r"\s*(?:out of|of|de)\s+(?:all\s+|todos?\s+)?(?:the\s+|los\s+|las\s+|these\s+|estos\s+|estas\s+)?$"
)
_OF = re.compile(r"\s*(?:out of|of|de|entre)\s+(?:all\s+|todos?\s+)?(?:the|los|las|these|estos|estas|our|nuestros?|\d)")
# Words that go with a count, and not with what is counted.
_FOUND = frozenset("found encontrados encontradas appears aparece recur recurs repite repiten times veces".split())
_NEAR_CHARS = 60
_LARGEST = 999
# Of the words of a sentence a source must have this share to be one that says it.
_HOLDING = 0.5


def may_count(figure: Figure, said: Statement) -> bool:
    """Whether the figure is one that counts, as far as the words behind it tell."""
    if figure.kind is not Kind.NUMBER or figure.unit or figure.value != int(figure.value) or figure.value > _LARGEST:
        return False
    after = fold(said.text)[figure.end : figure.end + _NEAR_CHARS]
    return _TIMES.match(after) is not None or _COUNTED.search(after) is not None


def is_count(figure: Figure, said: Statement, evidence: Mapping[int, tuple[Source, SourceText]]) -> bool:
    """Whether the figure is a true count over the run's evidence (sources by mark, with what was read of them).

    A whole, such as all documents found, must be right to the unit; a part of it may be no more than there are sources
    with the sentence's words.
    """
    if not may_count(figure, said):
        return False
    text = fold(said.text)
    before, after = text[max(0, figure.start - _NEAR_CHARS) : figure.start], text[figure.end : figure.end + _NEAR_CHARS]
    if _TIMES.match(after):
        return figure.value <= _sentences_with(said, evidence)
    if _OF_ALL.search(before) and quantities(_OF_ALL.sub("", before)[-12:]):
        return figure.value in _wholes(evidence)
    if _OF.match(after):
        return 0 < figure.value <= max(_sources_with(said, evidence), default=0)
    near = _COUNTED.match(after.lstrip().split(" ", 1)[-1]) or _COUNTED.match(after.lstrip())
    return bool(near) and (
        figure.value in _wholes(evidence) or 0 < figure.value <= max(_sources_with(said, evidence), default=0)
    )


def _wholes(evidence: Mapping[int, tuple[Source, SourceText]]) -> set[Decimal]:
    passages = [source for source, _ in evidence.values() if isinstance(source, Passage)]
    pages = [source for source, _ in evidence.values() if isinstance(source, Page)]
    documents = {one.document_id for one in passages}
    return set(map(Decimal, (len(documents), len(passages), len(pages), len(documents) + len(pages), len(evidence))))


def _sources_with(said: Statement, evidence: Mapping[int, tuple[Source, SourceText]]) -> list[int]:
    """How many documents and pages, and how many passages and pages, have most of the sentence's words."""
    words = _subject(said)
    documents: set[str] = set()
    count = 0
    for source, text in evidence.values():
        if text.tabular or not (is_foreign(said, [text]) or len(words & text.keys) >= _HOLDING * len(words)):
            continue
        documents.add(source.document_id if isinstance(source, Passage) else repr(source)[:200])
        count += 1
    return [len(documents), count]


def _sentences_with(said: Statement, evidence: Mapping[int, tuple[Source, SourceText]]) -> int:
    words = _subject(said)
    return sum(
        is_foreign(said, [text]) or len(words & one.keys) >= _HOLDING * len(words)
        for _, text in evidence.values()
        for one in text.sentences
    )


def _subject(said: Statement) -> frozenset[str]:
    """The sentence's words without those that only count."""
    counting = {key(word.folded) for word in said.words if _COUNTED.fullmatch(word.folded) or word.folded in _FOUND}
    return said.keys - counting
