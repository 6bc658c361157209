"""Tells when an answer makes a rule of what its source allows or demands under a condition only."""

import re

from services.orchestrator.citing.alignment import Aligned, Alignment, spoken
from services.orchestrator.citing.clauses import clauses
from services.runtime.expressions.folding import fold

_SWEEPING = re.compile(
    r"\b(?:any(?! (?:more|longer))|anyone|anybody|anywhere|whenever|always|everyone|everybody|freely|free to|simply"
    r"|unconditional(?:ly)?|at (?:any|all) (?:time|moment)s?|in (?:all|every|any) cases?|no strings|automatically"
    r"|without (?:any |further |other )?(?:conditions?|restrictions?|limits?|limitations?|permission|requirements?)"
    r"|cualquiera?|siempre(?! (?:que|y cuando))|libremente|con total libertad|todo el mundo|automaticamente"
    r"|en (?:todo|cualquier) (?:momento|caso)|cuando (?:quiera|quieran|se quiera|le parezca)"
    r"|sin (?:ninguna? |ningun )?(?:condicion(?:es)?|restriccion(?:es)?|limites?|permiso|requisitos?)"
    r"|sin mas requisitos?)\b"
)
_CONDITION = re.compile(
    r"\b(?:if|unless|provided|providing|as long as|so long as|only|once|except|subject to|on condition|in case|where"
    r"|(?:with|without) (?:the |prior |written )*(?:permission|consent|approval|agreement|authori[sz]ation|order)"
    r"|si|salvo|excepto|siempre (?:que|y cuando)|a condicion|con la condicion|solo|solamente|unicamente|a menos que"
    r"|en caso de|previ[ao]s?|mientras|sin que|una vez|cuando|tras"
    r"|con (?:el |la |previ[ao] )?(?:permiso|consentimiento|autorizacion|acuerdo|orden))\b"
)
_DENIED = re.compile(r"\b(?:not|never|no|nor|cannot|nobody|without|nunca|jamas|ni|tampoco|sin)\b|n['’]t\b")
_PART = re.compile(r"[,;:]\s|\b(?:before|antes de)\b")
_LEAST_SHARE, _LEAST_SHARED = 0.4, 2


def is_sweeping(said: str, alignment: Alignment) -> str:
    """The sentence of the source whose condition the answer leaves out while it says `any` or `always`; or empty."""
    folded = fold(said)
    parts = [part for part in _PART.split(folded) if _SWEEPING.search(part)]
    if not parts or _CONDITION.search(folded) or _DENIED.search(_SWEEPING.sub(" ", parts[0])):
        return ""
    about = spoken(clauses(parts[0]))
    for pair in alignment.pairs:
        source = fold(pair.place.text)
        if _is_about(pair, about) and _CONDITION.search(source) and not _SWEEPING.search(_CONDITION.sub(" ", source)):
            return pair.place.text
    return ""


def _is_about(pair: Aligned, about: frozenset[str]) -> bool:
    shared = pair.clause.anchors & pair.place.around & about
    return pair.share >= _LEAST_SHARE and len(shared) >= _LEAST_SHARED
