"""What the stand-in says when no tool is needed, or none was given. It never pretends to be a model."""

import re

from services.understudy.arithmetic import arithmetic
from services.understudy.intent import is_talk
from services.understudy.rows_text import number_text
from services.understudy.words import fold

_SAY = {
    "es": {
        "hello": "¡Hola! ¿Qué quieres saber? Puedo consultar los documentos, la base de datos y la web a mi alcance.",
        "thanks": "De nada. ¿Algo más?",
        "bye": "¡Hasta luego!",
        "about": "Soy el modelo sustituto (understudy) de sabueso: un programa de reglas que ocupa el lugar del modelo "
        "de lenguaje donde no hay GPU. Elijo herramientas y respondo con lo que ellas encuentran, citando cada fuente.",
        "cannot": "Soy el modelo sustituto (understudy): no redacto ni traduzco textos. Para eso hace falta el modelo "
        "de lenguaje al que sustituyo.",
        "alone": "Soy el modelo sustituto (understudy), un programa de reglas sin conocimientos propios. Sin "
        "herramientas no puedo responder a esta pregunta.",
        "sum": "El resultado es {}.",
        "ok": "De acuerdo. ¿Qué más quieres saber?",
    },
    "en": {
        "hello": "Hello! What would you like to know? I can consult the documents, the database and the web in reach.",
        "thanks": "You're welcome. Anything else?",
        "bye": "Goodbye!",
        "about": "I am sabueso's stand-in model (understudy): a program of rules in the place of the language model "
        "where there is no GPU. I choose tools and answer with what they find, citing every source.",
        "cannot": "I am the stand-in model (understudy): I do not write or translate texts. That takes the language "
        "model that I stand in for.",
        "alone": "I am the stand-in model (understudy), a program of rules without knowledge of its own. Without tools "
        "I cannot answer this question.",
        "sum": "The result is {}.",
        "ok": "All right. What else would you like to know?",
    },
}
_KINDS = (
    ("cannot", r"\b(?:translate|traduc\w*|rewrite|reescribe|joke|chiste|poema?|song|story|cuento)\b"),
    (
        "about",
        (
            r"\b(?:who are you|what are you|what can you do|your name|quien eres|que eres|"
            r"que puedes hacer|te llamas|que sabes hacer|me puedes ayudar|can you help)\b"
        ),
    ),
    ("thanks", r"\b(?:gracias|thanks?)\b"),
    ("bye", r"\b(?:adios|hasta luego|bye|goodbye|see you)\b"),
    ("hello", r"\b(?:hola|buen[oa]s|hello|hi|hey|good (?:morning|afternoon|evening)|que tal|how are you|como estas)\b"),
)


def talk(text: str, spoken: str) -> str:
    """A direct answer in the language `spoken`: greetings, thanks, arithmetic, or who is speaking."""
    say = _SAY[spoken]
    value = arithmetic(text)
    if value is not None:
        return say["sum"].format(number_text(value, spoken, places=6))
    if not is_talk(text):
        return say["alone"]
    folded = fold(text)
    return say[next((kind for kind, words in _KINDS if re.search(words, folded)), "ok")]
