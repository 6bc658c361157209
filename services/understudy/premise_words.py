"""Words and signs by which the premise of a question is read, in Spanish and English; all folded."""

import re

from services.understudy.words import stem

# Words of asking, not of the matter asked for.
FRAME = frozenset(
    stem(word)
    for word in """
    say says said state states document documents documento documentos dice dicen establece establecen indica
    explain explica summarize resume describe exist existe existen happens happen pasa ocurre tell means significa
    apply applies aplica aplican regarding find busca know saber possible posible necesito need want quiero kind
    mentioned menciona please favor set sets put fija fijan""".split()
)
# Words that a statement need not repeat.
UNTOLD = frozenset(
    stem(word)
    for word in """
    along during able after before between against being using used use usually approximately because according
    having across within without through while since still even ever never always often sometimes previously
    originally officially currently eventually around among toward towards upon whether however also certain based
    given likely kind sort type got get gets take takes took make made makes does done happen happened become
    became come came go went put set seem seems name named call called term year years time date day place person
    thing way amount number ademas aproximadamente durante despues mientras todavia aun segun usando usado usar
    utilizar utilizando normalmente habitualmente anteriormente originalmente oficialmente actualmente junto hacia
    mediante dentro fuera adonde algun alguna algunos algunas cierto ciertas ciertos determinado determinados
    mismo misma tan tanto estar estaba estaban estuvo tenia tenian tuvo tuvieron habia habian haber siendo llamaba
    llamar llamado llama llamada llamo da dan dar dio dieron hizo hicieron paso nombre ano anos tiempo fecha dia
    lugar persona cosa manera modo veces vez tipo cantidad numero""".split()
)
ORDINALS = tuple(
    re.compile(rf"\b(?:{words})\b")
    for words in (
        r"second|2nd|segund[oa]|2[.]?[oaºª]",
        r"third|3rd|tercer[oa]?|3[.]?[oaºª]|3er",
        r"fourth|4th|cuart[oa]|4[.]?[oaºª]",
        r"fifth|5th|quint[oa]|5[.]?[oaºª]",
        r"sixth|6th|sext[oa]",
        r"seventh|7th|septim[oa]",
        r"eighth|8th|octav[oa]",
        r"ninth|9th|noven[oa]",
        r"tenth|10th|decim[oa]",
    )
)
# `metres per second`, `a quarter`; `in the fourth quarter` is a time that a text names once for many sentences.
NO_ORDINAL = re.compile(r"(?:\bper|\bpor|\buna?|\ba|\d|\b(?:in|during) the|\ben (?:el|la)|\bultimo)\s+$")
# `What three things`: so many are asked for, not taken for granted.
ASKED_COUNT = re.compile(r"\b(?:what|which|que|cuales son (?:las|los)|what (?:are|were) the)\s+$")
CAUSE = re.compile(
    r"\b(?:because|since|due to|owing to|thanks to|so that|so as|in order|therefore|thus|hence|as a result|"
    r"result(?:ed|s|ing)?|"
    r"led to|leads? to|caus(?:e[ds]?|ing)|reasons?|for (?:fear|lack|security|safety|health|tax|legal|the sake)|"
    r"why|to (?!the\b|a\b|an\b|his\b|her\b|their\b|its\b|be\b|\d)[a-z]{3,}|for (?=\w+ing\b)|"
    r"as (?:the|it|they|he|she|there)|after|when|with the (?:aim|goal)|by \w+ing|which|so|if|whose|but|"
    r"porque|ya que|puesto que|dado que|debid[oa]s? a|a causa|por ello|por eso|por tanto|asi que|de modo que|"
    r"para|con el fin|a fin de|gracias a|motiv\w+|razon(?:es)?|caus\w+|como resultado|result\w+|consecuencia|"
    r"provoc\w+|"
    r"al \w+[aei]r(?:se)?|por (?:el|la|los|las|su|sus|falta|miedo|no|ser|estar|haber|\w+es)\b|pues|tras|cuando|"
    r"si|como|"
    r"lo que|pero|\w+ndo)\b"
)
ASKS_WHY = re.compile(r"\b(?:why|por que|what (?:is|was) the reason|what caused)\b")
MONEY = re.compile(
    r"[€$£¥]|\b(?:eur|euros?|usd|dollars?|dolar(?:es)?|gbp|pounds?|libras?|pesetas?|pesos?|francs?|francos?|"
    r"cents?|centimos?|"
    r"yen|marks?|marcos?|rupees?|rupias?|free|gratis|gratuit\w+|nothing|%|percent|por ciento|millions?|"
    r"millon(?:es)?|billions?)\b"
)
ASKS_MONEY = re.compile(
    r"\bhow much (?:does|do|did|is|are|was|were|will|would|must|should)\b.*\b(?:cost|pay|paid|charge|charged|"
    r"earn|fee|price|fine|worth|ticket|rent|deposit|subscription)\w*|"
    r"\bwhat (?:does|do|did|is|was)\b.*\b(?:cost|price|fee|fine|pay\b.*\bfor)\b|\b(?:price|cost) of\b|"
    r"\bcuanto (?:se )?(?:cuesta|cuestan|costo|costaba|costaron|vale|valen|valia|paga\w*|pago|cobra\w*|cobro|"
    r"gana\w*|gano|abona\w*|ingres\w+)\b|"
    r"\b(?:que|cual es el) (?:precio|coste|tarifa)\b|\ba cuanto asciende"
)
NEGATION = re.compile(
    r"\b(?:not|never|no|nobody|none|nothing|neither|nor|without|cannot|\w+n't|unless|except|forbidden|"
    r"prohibited|banned|"
    r"nunca|jamas|nadie|ningun[oa]?|nada|tampoco|ni|sin|salvo|excepto|prohib\w+|impid\w+|refus\w+|reject\w+|"
    r"fail\w*|den(?:y|ied|ies)|"
    r"rechaz\w+|neg(?:o|aron|ar|arse)|exclu\w+|only|solo|solamente|unicamente|until|hasta|sino|free|lack\w*|"
    r"carec\w+|exempt\w*|exent\w+)\b"
)
DENIED = re.compile(
    r"\b(?:not|never|no|nobody|cannot|\w+n't|nunca|jamas|nadie|forbidden|prohibited|prohibid[oa]s?|ni)\b"
)
EXCEPTED = re.compile(
    r"\b(?:except|unless|until|only|just|other than|more than|less than|longer|later|but|without|salvo|excepto|"
    r"hasta|solo|unicamente|sino|mas|menos|si|if|sin)\b"
)
CLAUSE = re.compile(r"[;:—–()]|,(?!\d)|\s(?:and|but|while|whereas|y|e|pero|mientras|aunque|although)\s")
# Things of one kind that exclude each other, in both languages.
CONTRASTS = tuple(
    tuple(frozenset(one.split()) for one in line.split("|"))
    for line in (
        "north northern norte septentrional|south southern sur meridional|east eastern este oriental|"
        "west western oeste occidental",
        "monday mondays lunes|tuesday tuesdays martes|wednesday wednesdays miercoles|thursday thursdays jueves|"
        "friday fridays viernes|saturday saturdays sabado sabados|sunday sundays domingo domingos",
        "january enero|february febrero|march marzo|april abril|june junio|july julio|august agosto|"
        "september septiembre|october octubre|november noviembre|december diciembre",
        "spring primavera|summer verano|autumn fall otono|winter invierno",
        "gold oro|silver plata|bronze bronce",
        "red rojo roja|blue azul|green verde|yellow amarillo amarilla|black negro negra|white blanco blanca",
        "left izquierda izquierdo|right derecha derecho",
        "english ingles inglesa|french frances francesa|german aleman alemana|italian italiano italiana|"
        "spanish espanol espanola castellano|portuguese portugues portuguesa|chinese chino china",
        "men man male hombre hombres|women woman female mujer mujeres",
        "maximum maximo maxima|minimum minimo minima",
        "adult adults adulto adultos|child children nino ninos",
    )
)
