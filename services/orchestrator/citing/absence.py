"""Tells sentences that say what could not be found: they rest on no source, and must not be blamed for it."""

import re

from services.runtime.expressions.folding import fold

_NOT = r"(?:not|never|cannot|\w+n't)"
_SOURCES = r"""(?:documents?|sources?|passages?|evidence|texts?|results?|pages?|records?|database|materials?
    |polic(?:y|ies)|contracts?)"""
_FUENTES = r"""(?:documentos?|fuentes?|pasajes?|evidencias?|textos?|resultados?|paginas?|registros?|base\ de\ datos
    |politicas?|contratos?|documentacion|informacion)"""
# Blanks of the texts are written `\ `: the patterns are laid out over lines.
_ABSENCE = re.compile(
    rf"""
    \b{_NOT}\ (?:\w+\ ){{0,2}}?
        (?:find|found|stated|mentioned|specified|be\ (?:reached|answered|checked|found|determined|confirmed|verified))\b
    | \b(?:do|does|did)(?:\ not|n't)\ (?:say|mention|specify|state|tell)\b
    | \bno\ (?:se\ )?(?:mencionan?|especifican?|indican?|dicen?)\b
    | \b{_SOURCES}\ (?:\w+\ ){{0,3}}?
        (?:{_NOT}\ (?:say|state|mention|specify|contain|tell|indicate|include|address|cover|give)
        |says?\ nothing|lacks?|(?:is|are)\ silent)
    | \bnone\ of\ the\ {_SOURCES}\b
    | \bnothing\ (?:in|was|is|about|on)\b.{{0,30}}\b(?:{_SOURCES}|found)\b
    | \b(?:no|not\ enough|insufficient|lacks?)\ (?:\w+\ ){{0,2}}?(?:information|evidence|mention|data|records?|results?)
        \ (?:on|about|of|for|in|was|were|is|are|that|to|could)\b
    | \bthere\ (?:is|are|was|were)\ no\ (?:information|evidence|mention|data|records?)
    | \b(?:i|we)\ (?:could\ not|couldn't|cannot|can't|do\ not|don't|did\ not|didn't)\ (?:\w+\ )?
        (?:find|know|have|tell|answer|reach|say)\b
    | \bno\ (?:he|hemos|se\ ha|se\ han|pude|pudimos|puedo|podemos|consigo)\ (?:\w+\ )?
        (?:encontra\w+|hallad\w+|localiza\w+|podido|logrado|responder|confirmar|comprobar|determinar)
    | \bno\ (?:tengo|tenemos|dispongo|disponemos\ de|hay)\ (?:\w+\ ){{0,2}}?
        (?:informacion|datos|evidencias?|constancia|resultados)
    | \bno\ (?:\w+\ )?(?:consta\w*|figura\w*|aparece\w*|menciona\w*|especifica\w*|indica\w*)
        \ (?:\w+\ ){{0,6}}?{_FUENTES}
    | \b{_FUENTES}\ (?:\w+\ ){{0,3}}?no\ (?:se\ )?
        (?:dicen?|indican?|mencionan?|especifican?|recogen?|constan?|figuran?|contienen?|incluyen?|detallan?|precisan?
        |aclaran?)\b
    | \b(?:ningun\w*|nada)\ (?:de\ )?(?:\w+\ ){{0,2}}?(?:en\ )?(?:las?\ |los?\ )?{_FUENTES}\b
    | \bno\ encuentro\b
    """,
    re.VERBOSE,
)
_NOT_AMONG = re.compile(
    r"\bno (?:figura|aparece|consta|esta|se encuentra|se incluye)n? (?:incluid\w+ )?"
    r"(?:entre|en la lista|en la relacion)"
    r"|\b(?:is|are|was|were)(?: not|n't) (?:among|listed|included|part of|one of)"
)
_MAX_CHARS = 1_000


def speaks_of_absence(text: str) -> bool:
    """Whether the sentence says that something is not in the evidence, or could not be had."""
    return _ABSENCE.search(fold(text[:_MAX_CHARS])) is not None


def is_left_out(text: str) -> bool:
    """Whether the sentence says that something is not among what the evidence lists."""
    return _NOT_AMONG.search(fold(text[:_MAX_CHARS])) is not None
