"""Whether a question asks several things of which one needs the answer to another, told from its words alone."""

import re

# Ways of asking for something that more can be asked of.
_WHICH = re.compile(
    r"\b(?:what|which|who|whom|whose|qué|cuál|cuáles|quién|quiénes|find|get|list|look\s+up|search|busca\w*|encuentra"
    r"|encontrar|averigua\w*|lista\w*|localiza\w*)\b",
    re.IGNORECASE,
)
_OTHER_ASK = re.compile(
    r"\b(?:how|when|where|why|compare|tell|show|check|cuánt[oa]s?|cómo|cuándo|dónde|dime|compara\w*|muestra|muéstrame"
    r"|consulta\w*|comprueba\w*)\b",
    re.IGNORECASE,
)
# The second thing comes after the first.
_THEN = re.compile(
    r"\b(?:and\s+then|then|after\s+that|afterwards|next|based\s+on\s+(?:that|this|it)|with\s+(?:that|this)|once\s+you"
    r"|luego|después|a\s+continuación|a\s+partir\s+de\s+(?:eso|ello|ahí)|con\s+(?:eso|ello|ese\s+dato)|una\s+vez)\b",
    re.IGNORECASE,
)
# The second thing is about the answer to the first.
_OF_IT = re.compile(
    r"\b(?:its|their|his|her|that\s+(?!is\b|are\b|was\b|were\b|have\b|has\b)\w+|those|such|the\s+same"
    r"|sus?|es[eao]s?|dich[oa]s?|aquell?[oa]s?|aquel|l[oa]s?\s+mism[oa]s?|el\s+mismo)\b",
    re.IGNORECASE,
)
_JOINT = re.compile(r"[,;.?]\s+|\s(?:and|y|e)\s", re.IGNORECASE)
# `the director of the company that …`, `el proveedor cuyo contrato …`: what is asked of depends on what is told.
_NESTED = re.compile(
    r"\b(?:of|from|by|for|with)\s+the\s+[\w\s-]{2,40}?\s(?:that|which|who|whose|where)\b"
    r"|\b(?:del?|con|por|para|al?)\s+(?:la\s+|las\s+|los\s+|el\s+)?[\w\s-]{2,40}?\s(?:cuy[oa]s?|que\s+(?:más|menos|mayor"
    r"|menor|tiene|firmó|ganó|fundó|escribió|dirigió|provee|suministra))\b",
    re.IGNORECASE,
)


# `the name of the company that …` is the company itself, and `the number of the contracts that …` counts them: nothing
# else is asked for.
_SAME_THING = re.compile(
    r"\b(?:name|title|number|percentage|share|proportion|code|list)s?\s+of\s+the\b"
    r"|\b(?:nombre|título|número|porcentaje|proporción|código|lista)s?\s+del?\b(?:\s+(?:la|las|los|el)\b)?",
    re.IGNORECASE,
)


def depends(question: str) -> bool:
    """Whether it does. Wrong in both directions at times: a false one costs a plan, a missed one a turn or two."""
    if _NESTED.search(_SAME_THING.sub("the", question)):
        return True
    asked = False
    for part in _JOINT.split(question):
        which = _WHICH.search(part) is not None
        asks = which or _OTHER_ASK.search(part) is not None
        later, of_it = _THEN.search(part) is not None, _OF_IT.search(part) is not None
        if asked and asks + later + of_it >= 2:
            return True
        asked = asked or which
    return False
