"""What an answer says of itself where its sources do not bear it out, and the reasons that go with findings."""

from collections.abc import Sequence

from services.orchestrator.citing.words import language, words
from services.orchestrator.partial import language as question_language

OTHER = "the source is about something else"
CONTRARY = "the source says the contrary"
NUMBER = "it is in no source, and cannot be computed from them"
BY_MODEL = "a model that was asked again does not find it in the source"
_MAX_NAMED = 6
_NOTES = {
    "en": {
        "one number": "Note: I could not find this number in the sources: {named}.",
        "numbers": "Note: I could not find these numbers in the sources: {named}.",
        "one mark": "Note: the source {named} does not clearly support the sentence that cites it.",
        "marks": "Note: the sources {named} do not clearly support the sentences that cite them.",
    },
    "es": {
        "one number": "Nota: no he encontrado esta cifra en las fuentes: {named}.",
        "numbers": "Nota: no he encontrado estas cifras en las fuentes: {named}.",
        "one mark": "Nota: la fuente {named} no respalda con claridad la frase que la cita.",
        "marks": "Nota: las fuentes {named} no respaldan con claridad las frases que las citan.",
    },
}


def note(answer: str, question: str, figures: Sequence[str], marks: Sequence[int]) -> str:
    """One paragraph about numbers without a source and marks that do not hold; empty without either.

    In the answer's language, or the question's where the answer's words do not tell. Marks are named without brackets:
    the note cites nothing.
    """
    spoken = language(words(answer))
    texts = _NOTES[spoken if spoken in _NOTES else question_language(question)]
    said: list[str] = []
    for listed, one, many in (
        (list(dict.fromkeys(figures)), "one number", "numbers"),
        (list(map(str, dict.fromkeys(marks))), "one mark", "marks"),
    ):
        if listed:
            named = ", ".join(listed[:_MAX_NAMED]) + (" …" if len(listed) > _MAX_NAMED else "")
            said.append(texts[one if len(listed) == 1 else many].format(named=named))
    return " ".join(said)
