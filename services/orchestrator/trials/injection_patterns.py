"""The detector that there was before, as a baseline: patterns in Spanish and English."""

import re

from services.runtime.recognition.folding import fold

# Words without which none of the patterns below matches: most texts hold few of them.
_TRIGGER = re.compile(
    r"ignor|disregard|forget|olvid|dimentic|oubli|overrid|anul|bypass|prompt|instruc|istruzion|anweisung|system|sistema|"
    r"jailbreak|developer mode|modo desarrollador|\bdan\b|pretend|finge|act as|actua como|you are now|ahora eres|"
    r"reveal|revel|repeat|repit|<\|im_|\[inst|###|do not tell|no le digas|exfiltr|nueva tarea|important|instead|"
    r"en lugar|decod|base64|restric|without limit|sin limit|note to|any ai|ai agent|ai assistant|ai coding|"
    r"[a-z]_[a-z]|you must|debes|context window|hereby"
)
_DROP = r"(?:ignor\w*|disregard\w*|forget|olvid\w*|dimentic\w*|oubli\w*|overrid\w*|anul\w*|bypass\w*)"
_BEFORE = (
    r"(?:all |any |every |the |your |my |of |todas? |todos? |tus? |las? |los? |el |mis? |cualquier |toutes |les |alle |"
    r"tutte |le |deine |operator'?s? |developer |system |and ){0,5}"
)
_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|existing|anterior(?:es)?|previ[ao]s?|vorherigen)"
_ORDERS = (
    r"(?:instructions?|prompts?|rules?|directives?|guidelines?|commands?|directions|messages|polic(?:y|ies)|"
    r"confidentiality|restrictions?|instruccion(?:es)?|reglas?|ordenes|normas|istruzioni|anweisungen|richtlinien)"
)
# Weight and pattern; gaps are bounded, so that time grows with the text and no faster.
_PATTERNS = tuple(
    (weight, re.compile(pattern))
    for weight, pattern in (
        (0.9, rf"{_DROP} {_BEFORE}(?:{_EARLIER} )?(?:\w+ )?{_ORDERS}"),
        (0.8, rf"{_DROP} {_BEFORE}{_ORDERS} {_EARLIER}"),
        (0.8, rf"{_DROP} (?:everything|todo) ?(?:lo )?(?:above|before|you|anterior|que)|{_DROP} lo anterior"),
        (
            0.8,
            r"(?:reveal|print|show|repeat|output|leak|tell me|revel\w*|muestra\w*|imprime|repi\w*|dime) "
            r"(?:me |moi )?(?:your|the|tus?|tes|el|las?|everything) (?:\w+ ){0,3}"
            r"(?:prompt|instructions|instrucciones|sistema|system|context|words above|above)",
        ),
        (
            0.8,
            r"decod\w* (?:\w+ ){0,6}(?:and|then|it|y) (?:do|follow|execute|haz|sigue|ejecuta)|(?:do|haz) exactly what",
        ),
        (0.7, r"(?:jailbreak|developer mode|modo desarrollador|do anything now|\bdan mode|protocols? disabled)"),
        (0.6, r"(?:you are now|from now on you|ahora eres|a partir de ahora (?:eres|seras|vas)|(?:you are )?hereby)"),
        (0.5, r"(?:pretend|act as if|act as though|finge|actua como si) (?:you|to be|that|eres|que|fueras)"),
        (
            0.7,
            r"(?:<\|im_(?:start|end)\|>|<\|(?:system|assistant|user)\|>|\[/?inst\]|<<sys>>|#{2,4} ?(?:system|instruc))",
        ),
        (0.6, r"(?:new|updated|real|actual|nuevas?) (?:\w+ )?(?:system )?(?:instructions?|instrucciones)"),
        (
            0.6,
            r"(?:do not|don't|never|no se lo|no le|sin) (?:tell|mention|inform|reveal|digas|menciones|informar)"
            r"[^.]{0,40}(?:user|usuario|anyone|nadie)",
        ),
        (
            0.7,
            r"(?:without|sin|senza|sans|no) (?:any |more )?(?:restri\w+|filters?|limit\w*|filtros)|unrestricted|"
            r"reglas de seguridad no",
        ),
        (0.5, r"(?:instead of|rather than|en lugar de) (?:answering|summari[sz]ing|responding|responder|resumir)"),
        (0.5, r"(?:important|importante|attention|atencion)[!: ]{1,4}(?:\w+ ){0,3}(?:you must|debes|assistant|ignor)"),
        (0.5, r"(?:send|post|forward|exfiltrat\w*|envia\w*|manda\w*) (?:\w+ ){0,6}(?:to|a) (?:https?://|\S{1,60}@)"),
        (
            0.7,
            r"(?:note to (?:the |any )?|any |for |to )(?:ai|bot|llm|assistant)s?\b",
        ),
        (0.6, r"(?:call|use|invoke|llama a|usa) [a-z]{2,20}_[a-z_]{2,30}"),
        (0.5, r"you must (?:include|add|append|output|reply)|debes (?:incluir|anadir|responder)"),
    )
)
_SPACES = re.compile(r"\s+")
# Around a trigger; what belongs together stands together.
_REACH_CHARS = 160


class PatternScorer:
    """Adds up what speaks for an order, one sentence's neighbourhood at a time: 1 - Π(1 - weight)."""

    def score(self, text: str) -> float:
        """From 0 to 1. Time grows with the text's length and no faster."""
        plain = _SPACES.sub(" ", _folded(text))
        worst = 0.0
        for start, end in _near_triggers(plain):
            innocent = 1.0
            for weight, pattern in _PATTERNS:
                if pattern.search(plain, start, end):
                    innocent *= 1 - weight
            worst = max(worst, 1 - innocent)
        return worst


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else fold(text).text.lower()


def _near_triggers(text: str) -> list[tuple[int, int]]:
    """Stretches around triggers; those that overlap are one, up to a size."""
    stretches: list[tuple[int, int]] = []
    for match in _TRIGGER.finditer(text):
        start, end = max(0, match.start() - _REACH_CHARS), match.end() + _REACH_CHARS
        if stretches and start < stretches[-1][1] and end - stretches[-1][0] < 8 * _REACH_CHARS:
            stretches[-1] = stretches[-1][0], end
        elif not stretches or end > stretches[-1][1] + _REACH_CHARS // 2:
            stretches.append((start, end))
    return stretches
