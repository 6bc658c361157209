"""Composes the cited answer from what the tools found: every fact is a number of a row or a quoted sentence."""

import re
from collections.abc import Mapping, Sequence

from services.understudy.evidence import Findings, Page, Passage, Reply, Rows, clean, gives_orders
from services.understudy.extract import Asked, Found, Quote, extract, read, shorten
from services.understudy.intent import Part, recurring, split
from services.understudy.recurrence import recurring_clauses
from services.understudy.rows_text import rows_text
from services.understudy.schema_reader import Schema
from services.understudy.search_queries import taken_apart, telling
from services.understudy.signs import Need
from services.understudy.words import fold, language, sentences, stems

_MIN_WEB_COVERAGE = 0.34
# With accents: `será` is ahead, `era` is not.
_AHEAD = re.compile(r"\b(?:will|shall)\b|\w(?:ré|rás|rá|remos|rán)\b")
# Of each thing that a question asks; and words of its own that a part has at least.
_QUOTES_OF_EACH, _LEAST_TELLING = 1, 2
_SAY: Mapping[str, Mapping[str, str]] = {
    "es": {
        "no_rows": "No he encontrado datos en la base de datos que respondan a esta parte de la pregunta.",
        "no_passages": "No he encontrado en los documentos nada que responda a esta pregunta.",
        "lacking": "No he encontrado en los documentos nada que responda a esto: no hablan de «{words}».",
        "instead": "Lo que dicen es otra cosa: «{text}».",
        "no_pages": "No he encontrado en la web nada que responda a esta pregunta.",
        "nothing": "No he encontrado información que responda a la pregunta.",
        "no_recurrence": "No he encontrado condiciones que se repitan en los documentos encontrados ({total}).",
        "recurs": "Se repiten las siguientes cláusulas:",
        "clause": "Cláusula {number}",
        "in_documents": "en {count} de los {total} documentos encontrados",
        "part": "De esto no dicen nada los documentos encontrados: «{part}».",
        "failed": "No se ha podido consultar {tool}, de modo que esa parte queda sin responder.",
        "no_tool": "No dispongo de una herramienta para consultar {tool}.",
        "sql_query": "la base de datos",
        "vector_search": "los documentos",
        "web_search": "la web",
    },
    "en": {
        "no_rows": "I did not find data in the database that answers this part of the question.",
        "no_passages": "I did not find anything in the documents that answers this question.",
        "lacking": "I did not find anything in the documents that answers this: they do not tell of “{words}”.",
        "instead": "What they say is something else: “{text}”.",
        "no_pages": "I did not find anything on the web that answers this question.",
        "nothing": "I did not find information that answers the question.",
        "no_recurrence": "I did not find conditions that recur in the documents found ({total}).",
        "recurs": "The following clauses recur:",
        "clause": "Clause {number}",
        "in_documents": "in {count} of the {total} documents found",
        "part": "The documents found say nothing of this: “{part}”.",
        "failed": "{tool} could not be reached, so that part remains unanswered.",
        "no_tool": "I have no tool to consult {tool}.",
        "sql_query": "the database",
        "vector_search": "the documents",
        "web_search": "the web",
    },
}


def compose(question: str, parts: Sequence[Part], found: Findings, schema: Schema, spoken: str) -> str:
    """The answer in the language `spoken` (`es`, `en`): numbers, documents, the web, then what is missing."""
    say = _SAY[spoken]
    failed = {one.tool for one in found.failures}
    blocks: list[str] = []
    if Need.SQL.value in found.searched:
        blocks += _numbers(_about(Need.SQL, parts, question), found, schema, spoken)
    answered = False
    if Need.DOCUMENTS.value in found.searched:
        text, answered = _documents(_about(Need.DOCUMENTS, parts, question), found.passages, spoken)
        blocks.append(text)
    if Need.WEB.value in found.searched:
        blocks.append(_web(_about(Need.WEB, parts, question), found.pages, spoken))
    blocks += [_replied(one) for one in found.replies if not gives_orders(fold(one.text))]
    for tool in sorted(failed - found.searched):
        name = say.get(tool, tool)
        blocks.append(_capitalised(say["failed"].format(tool=name)))
    needs = {part.need for part in parts if part.need is not Need.TALK}
    if schema.tables or (answered and Need.DOCUMENTS not in needs):
        needs.discard(Need.SQL)  # the database is there but holds nothing of it, or documents stood in and knew
    missing = {need.value for need in needs} - found.searched - failed
    if found.searched and missing:
        blocks += [say["no_tool"].format(tool=say[tool]) for tool in sorted(missing)]
    return "\n\n".join(block for block in blocks if block) or say["nothing"]


def no_tool_text(needs: Sequence[Need], spoken: str) -> str:
    """What is said when none of the offered tools can answer."""
    say = _SAY[spoken]
    return " ".join(say["no_tool"].format(tool=say[need.value]) for need in dict.fromkeys(needs) if need.value)


def _about(need: Need, parts: Sequence[Part], question: str) -> str:
    """The text of the parts that are for a tool; the whole question when the tool was not of our choosing."""
    own = [part.text for part in parts if part.need is need]
    return "; ".join(own) if own else question


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _numbers(question: str, found: Findings, schema: Schema, spoken: str) -> list[str]:
    ahead = _AHEAD.search(question.lower()) is not None
    texts = [rows_text(question, one, spoken, schema) for one in found.rows if not (ahead and _is_nothing(one))]
    return [text for text in texts if text] or [_SAY[spoken]["no_rows"]]


def _is_nothing(rows: Rows) -> bool:
    """Whether it counts nothing: of what is still to come a database holds no more."""
    return all(value in (None, 0, "0", "0.00") for row in rows.rows for value in row)


def _documents(question: str, passages: Sequence[Passage], spoken: str) -> tuple[str, bool]:
    """What documents say, and whether that is an answer."""
    say = _SAY[spoken]
    if recurring(question):
        groups, total = recurring_clauses(question, passages)
        if groups:
            lines = [say["recurs"]]
            for group in groups:
                name = say["clause"].format(number=group.number) if group.number else ""
                where = say["in_documents"].format(count=len(group.documents), total=total)
                marks = "".join(f"[{mark}]" for mark in group.marks(spoken) if mark)
                lead = f"{name} ({where})" if name else _capitalised(where)
                lines.append(f"- {lead}: {_closed(group.sentence(spoken), marks)}")
            return "\n".join(lines), True
        if passages:
            return say["no_recurrence"].format(total=total), False
    found = read(question, passages)
    quotes, missing = _of_each(question, passages, found)
    if not quotes:
        return _refused(found, spoken), False
    lines = [_closed(one.text, "".join(f"[{mark}]" for mark in one.numbers if mark)) for one in quotes]
    text = lines[0] if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)
    return "\n\n".join([text, *(say["part"].format(part=part.strip(" ¿?.,;")) for part in missing)]), True


def _of_each(question: str, passages: Sequence[Passage], found: Found) -> tuple[list[Quote], list[str]]:
    """What is quoted for each thing that a question asks, and the parts of it of which nothing is said.

    Each may be told in a passage of its own. `found`: what is told of all of it.
    """
    apart = taken_apart(question)
    if not apart or (found.quotes and len(split(question)) < 2):
        return list(found.quotes), []
    # A part of one word leans on the others, though nothing in it points there: `and when is it asked for?`
    leaning = [len(telling(part)) < _LEAST_TELLING for part in apart]
    told = [
        extract(question if leans else part, passages)[:_QUOTES_OF_EACH]
        for part, leans in zip(apart, leaning, strict=True)
    ]
    if found.quotes and not all(told):
        told.append(list(found.quotes))
    quotes = {quote.text: quote for quotes in told for quote in quotes}
    of_parts = sum(map(len, told[: len(apart)]))
    missing = [part for part, own in zip(apart, told, strict=False) if not own]
    new = len(quotes) > of_parts or not of_parts
    return list(quotes.values()), [] if new or len(split(question)) < 2 else missing


def _refused(found: Found, spoken: str) -> str:
    """That nothing answers, what is missing, and what is said instead where that is something else.

    The sentence stands without its mark: a mark would make it the answer.
    """
    say, lack = _SAY[spoken], found.lacks
    if lack is None or not (lack.words or lack.contrary):
        return say["no_passages"]
    text = say["lacking"].format(words=lack.words) if lack.words else say["no_passages"]
    return f"{text} {say['instead'].format(text=found.closest.rstrip('.;:, '))}" if lack.contrary else text


def _closed(text: str, marks: str) -> str:
    """The sentence with its marks before the full stop."""
    body = text.strip().rstrip(".;:,")
    return f"{body} {marks}." if marks else f"{body}."


def _replied(reply: Reply) -> str:
    """What another tool said, in its own words."""
    return f"{reply.tool}: {_closed(shorten(clean(reply.text)), f'[{reply.number}]' if reply.number else '')}"


def _web(question: str, pages: Sequence[Page], spoken: str) -> str:
    """The best pages, each with its two most telling sentences; those in the reader's language before others."""
    known = [stems(f"{page.title} {page.snippet}") for page in pages]
    asked = Asked(question, known)
    fitting = [(asked.coverage(own), page) for own, page in zip(known, pages, strict=True)]
    fitting = [(score, page) for score, page in fitting if score >= _MIN_WEB_COVERAGE]
    own_language = [one for one in fitting if language(one[1].snippet) == spoken]
    lines: list[str] = []
    for _, page in sorted(own_language or fitting, key=lambda one: -one[0])[:3]:
        texts = [one for one in sentences(clean(page.snippet)) if not gives_orders(fold(one))]
        best = sorted(texts, key=lambda text: -asked.coverage(stems(text)))[:2]
        snippet = " ".join(text for text in texts if text in best)
        title = clean(page.title).rstrip(".")
        date = f" ({page.published[:10]})" if page.published else ""
        if snippet and not gives_orders(fold(title)):
            lines.append(f"- {title}{date}: {_closed(shorten(snippet), f'[{page.number}]' if page.number else '')}")
    return "\n".join(lines) or _SAY[spoken]["no_pages"]
