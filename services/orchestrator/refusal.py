"""Saying that there is nothing to answer from, and telling when a model has said so itself."""

import re

from services.orchestrator.partial import language

_REFUSAL = {
    "en": "I do not have enough information to answer this: nothing that I found supports an answer.",
    "es": "No tengo información suficiente para responder: nada de lo que he encontrado permite una respuesta.",
}
# Whole words of an admission. Other languages than the two that we answer in have their commonest forms only.
_ADMISSION = re.compile(
    r"""
    \b(?: could\ not | couldn['’]t | cannot | can['’]t | unable\ to | (?:did|do|does|was|were|have|has|is|are)\ not
        | (?:did|do|does|was|were|have|has|is|are)n['’]t | nothing
        | no\ (?:relevant\ |such\ )?(?:information|evidence|data|results?|records?|documents?|mention|passages?)
        | insufficient | not\ (?:found|available|mentioned|stated|specified|known)
    )\b
    | \b(?: no\ (?:he|hemos|se|ha|han|hay|tengo|tenemos|dispongo|disponemos|encuentro|encontré|encontramos|consta\w*
          | figura\w*|aparece\w*|existe\w*|puedo|podemos|pude|pudimos|es\ posible|está\w*|dice\w*|menciona\w*|sé)
        | nada | ning[uú]n\w* | sin\ (?:información|datos|resultados) | insuficiente\w*
        | não | nenhum\w* | aucun\w* | rien | nessun\w* | niente | keine?\w* | nicht\w*
    )\b
    | \bn['’e]\s?\w+\ pas\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")
_OPENING_CHARS = 240


def refusal(question: str) -> str:
    """The refusal, in the question's language."""
    return _REFUSAL[language(question)]


def admits(text: str) -> bool:
    """Whether the first sentence of an answer says that something is missing, in any way: a denial does so too."""
    first = _SENTENCE_END.split(text.strip()[:_OPENING_CHARS], maxsplit=1)[0]
    return _ADMISSION.search(first) is not None
