"""Pairs of questions: those written by hand, and families made by combination, each question with what it means."""

from collections.abc import Iterator
from itertools import permutations, product
from pathlib import Path

_FOLDER = Path("tests/data/semantic_cache")
_AMOUNTS_EN = (
    "3|13|30|33|300|3,000|30,000|3 million|3.5 million|35 million|3 billion|300k|three hundred and three|3%|$3|€3"
)
_AMOUNTS_ES = "3|13|30|300|3.000|30.000|3 millones|3,5 millones|35 millones|300 mil|trescientos tres|treinta y tres|3 %"
_DATES_EN = (
    "2022|2023|March 2024|May 2024|Q1 2024|Q2 2024|H1 2024|1 March 2024|3 January 2024|this year|next year|"
    "last month|this month|next month|last week|this week|yesterday|today|tomorrow"
)
_DATES_ES = (
    "2022|2023|marzo de 2024|mayo de 2024|el primer trimestre de 2024|el segundo trimestre de 2024|"
    "el 1 de marzo de 2024|el 3 de enero de 2024|este año|el mes pasado|este mes|la semana pasada|ayer|hoy"
)
_THINGS_EN = (
    "contract invoice supplier customer employee policy price cost fee term budget expense discount licence "
    "limit laptop order purchase payment delivery renewal date deadline rate tax report project product office "
    "warehouse balance rule requirement risk bonus margin profit loss value account name complaint incident "
    "offer vacancy server law fine damage"
)
_THINGS_ES = (
    "contrato factura proveedor cliente empleado politica precio coste tarifa plazo presupuesto gasto descuento "
    "licencia límite portátil pedido compra pago entrega renovación fecha impuesto informe proyecto producto "
    "oficina almacén saldo norma requisito riesgo bonus margen beneficio pérdida venta importe valor reclamación "
    "incidencia oferta vacante"
)
_DONE_EN = (
    "signed paid issued approved cancelled terminated renewed received bought sold sent delivered returned "
    "requested rejected submitted kept created disputed reimbursed expired ended started mentioned covered "
    "exceeded allowed managed"
)
_DONE_ES = (
    "firmados pagados emitidos aprobados cancelados rescindidos renovados recibidos comprados vendidos enviados "
    "entregados devueltos solicitados rechazados presentados guardados creados impugnados reembolsados vencidos "
    "terminados empezados"
)
_VERBS_EN = (("pay", "paid"), ("hire", "hired"), ("sue", "sued"), ("acquire", "acquired"), ("manage", "managed"))
_VERBS_ES = (("pagar", "pagó", "pagado"), ("contratar", "contrató", "contratado"), ("demandar", "demandó", "demandado"))

Meant = tuple[object, str]


def paraphrases(part: str, language: str) -> list[list[str]]:
    """Pairs of questions that ask the same. `part` is "dev" or "test"."""
    return _rows(f"paraphrases_{part}_{language}.tsv")


def adversarial() -> list[list[str]]:
    """Kind, language, and two questions that do not ask the same."""
    return _rows("adversarial.tsv")


def _rows(name: str) -> list[list[str]]:
    lines = (_FOLDER / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines]


def families() -> dict[str, list[Meant]]:
    """By kind: questions, each with what it means. Those that differ in meaning must be told apart."""
    made = {f"{name}, en": list(items) for name, items in _english()}
    return made | {f"{name}, es": list(items) for name, items in _spanish()}


def _english() -> Iterator[tuple[str, Iterator[Meant]]]:
    yield "direction", _directions_en()
    yield "binding", _bindings_en()
    yield "roles", _roles("invoices flights contracts emails", "from to with for by about against between")
    prepositions = ("in", "before", "after", "since", "until", "by")
    heads = ("contracts signed", "revenue", "invoices")
    yield "dates", (((h, p, d), f"{h} {p} {d}") for h, p, d in product(heads, prepositions, _DATES_EN.split("|")))
    bounds = ("above", "below", "with at least", "with at most", "with exactly", "of about", "with")
    yield "numbers", (((b, n), f"contracts {b} {n} units") for b, n in product(bounds, _AMOUNTS_EN.split("|")))
    amounts = "all some no most few many several only both other 2 3 12 large larger small".split()
    yield "quantity", ((a, f"{a} suppliers in Spain") for a in [*amounts, "a few", "the largest", "the smallest"])
    yield "attributes", ((thing, f"What is the {thing} of Acme in 2024?") for thing in _THINGS_EN.split())
    yield "compounds", ((pair, f"{pair[0]} {pair[1]} list") for pair in permutations(_THINGS_EN.split()[:16], 2))
    yield "verbs", (((v, y), f"contracts {v} in {y}") for v, y in product(_DONE_EN.split(), (2023, 2024)))
    asked = (
        "How many|Which|When were|Where were|Why were|Who|How were|How long were|How often were|Were|Can|Must|Should"
    )
    yield "questions", ((a, f"{a} contracts signed in 2024") for a in asked.split("|"))
    places = "in Spain|from Spain|to Spain|outside Spain|with Spain|without Spain|not in Spain|except Spain"
    places += (
        "|in Spain or Italy|in Spain and Italy|in Spain but not Italy|in Italy but not Spain|about Spain|near Spain"
    )
    yield "places", ((p, f"contracts {p}") for p in places.split("|"))


def _spanish() -> Iterator[tuple[str, Iterator[Meant]]]:
    yield "direction", _directions_es()
    yield "binding", _bindings_es()
    yield "roles", _roles("facturas vuelos contratos pagos", "de a con para por sobre contra desde hasta")
    prepositions = ("en", "antes de", "después de", "desde", "hasta")
    heads = ("contratos firmados", "ingresos")
    yield "dates", (((h, p, d), f"{h} {p} {d}") for h, p, d in product(heads, prepositions, _DATES_ES.split("|")))
    bounds = ("de más de", "de menos de", "de al menos", "con exactamente", "de unas", "de hasta", "con")
    yield "numbers", (((b, n), f"contratos {b} {n} unidades") for b, n in product(bounds, _AMOUNTS_ES.split("|")))
    amounts = "todos algunos ningún pocos muchos varios solo ambos otros 2 3 12 grandes pequeños".split()
    yield "quantity", ((a, f"{a} proveedores de España") for a in [*amounts, "los mayores"])
    yield "attributes", ((thing, f"¿Cuál es el {thing} de Acme en 2024?") for thing in _THINGS_ES.split())
    yield "compounds", ((pair, f"lista de {pair[0]} de {pair[1]}") for pair in permutations(_THINGS_ES.split()[:16], 2))
    yield "verbs", (((v, y), f"contratos {v} en {y}") for v, y in product(_DONE_ES.split(), (2023, 2024)))
    asked = (
        "Cuántos|Qué|Cuándo fueron|Dónde fueron|Por qué fueron|Quién|Cómo fueron|Cada cuánto|Fueron|Hay|Pueden|Deben"
    )
    yield "questions", ((a, f"¿{a} contratos firmados en 2024?") for a in asked.split("|"))
    places = (
        "en España|desde España|a España|fuera de España|con España|sin España|no en España|salvo España|sobre España"
    )
    places += "|en España o Italia|en España y Italia|en España pero no Italia|en Italia pero no España|para España"
    yield "places", ((p, f"contratos {p}") for p in places.split("|"))


def _roles(heads: str, prepositions: str) -> Iterator[Meant]:
    for head, (one, other), (a, b) in product(
        heads.split(), permutations(prepositions.split(), 2), permutations(("Acme", "Globex"))
    ):
        yield (head, frozenset({(one, a), (other, b)})), f"{head} {one} {a} {other} {b}"


def _directions_en() -> Iterator[Meant]:
    for (verb, past), (a, b) in product(_VERBS_EN, permutations(("Acme", "Globex"))):
        said = (verb, a, b)
        yield said, f"{a} {past} {b}"
        yield (*said, "?"), f"Did {a} {verb} {b}?"
        yield (*said, "? passive"), f"Was {b} {past} by {a}?"
        yield (verb, a, "?"), f"Who did {a} {verb}?"
        yield (verb, "?", a), f"Who {past} {a}?"
        for word in ("When", "Why", "How much", "Where"):
            yield (*said, word), f"{word} did {a} {verb} {b}?"
            yield (*said, word, "passive"), f"{word} was {b} {past} by {a}?"
        yield (*said, "not"), f"Did {a} not {verb} {b}?"
        for modal in ("Can", "Must", "Should", "Will"):
            yield (*said, modal), f"{modal} {a} {verb} {b}?"
        yield (verb, "customers", a, b), f"customers of {a} that {past} {b}"
        yield (verb, b, "customers", a), f"customers of {a} that {b} {past}"
        yield (verb, b, "customers", a, "passive"), f"customers of {a} {past} by {b}"
        yield (verb, "we", a, "?"), f"Did we {verb} {a}?"
        yield (verb, a, "we", "?"), f"Did {a} {verb} us?"


def _directions_es() -> Iterator[Meant]:
    for (verb, past, done), (a, b) in product(_VERBS_ES, permutations(("Acme", "Globex"))):
        said = (verb, a, b)
        yield said, f"{a} {past} a {b}"
        yield (verb, a, "?"), f"¿A quién {past} {a}?"
        yield (verb, "?", a), f"¿Quién {past} a {a}?"
        for word in ("Cuándo", "Por qué", "Cuánto", "Dónde"):
            yield (*said, word), f"¿{word} {past} {a} a {b}?"
            yield (*said, word, "passive"), f"¿{word} fue {done} {b} por {a}?"
        yield (*said, "not"), f"¿No {past} {a} a {b}?"
        yield (*said, "can"), f"¿Puede {a} {verb} a {b}?"
        yield (*said, "must"), f"¿Debe {a} {verb} a {b}?"
        yield (verb, b, "customers", a), f"clientes de {a} a los que {past} {b}"
        yield (verb, "customers", a, b), f"clientes de {a} que {past} a {b}"
        yield (verb, b, "customers", a, "passive"), f"clientes de {a} {done}s por {b}"


def _bindings_en() -> Iterator[Meant]:
    """What is said of the one thing is not said of the other."""
    words = "approved active expired acquired new confidential largest only 3 5th unsigned".split()
    nouns = permutations(("contracts", "annexes", "reports", "copies"), 2)
    for (one, other), by in product(nouns, ("of", "with", "for", "about", "from", "on", "to", "without")):
        both = one, by, other
        for word in words:
            yield (1, word, *both), f"{word} {one} {by} {other}"
            yield (2, word, *both), f"{one} {by} {word} {other}"
        for word in words[:6]:
            yield (2, word, *both), f"{one} {by} {other} that are {word}"
            yield (1, word, *both), f"{one} that are {word} {by} {other}"
            yield (1, "not", word, *both), f"{one} not {word} {by} {other}"
            yield (1, "not", word, *both), f"Which {one} {by} {other} are not {word}?"
            yield (2, "not", word, *both), f"{one} {by} {other} that are not {word}"
        for day, done in product(("2023", "March 2024"), ("signed", "launched")):
            yield (1, day, *both), f"{one} in {day} {by} {other}"
            yield (1, done, day, *both), f"{one} {done} in {day} {by} {other}"
            yield (1, done, "for", day, *both), f"{one} {done} for {day} {by} {other}"
            yield (2, done, day, *both), f"{one} {by} {other} that were {done} in {day}"
            yield (1, day, 2, done, *both), f"{one} in {day} {by} {other} that were {done}"


def _bindings_es() -> Iterator[Meant]:
    nouns = permutations(("contratos", "anexos", "informes", "documentos"), 2)
    for (one, other), by in product(nouns, ("de", "con", "para", "sobre", "desde", "a", "sin")):
        both = one, by, other
        for word in "aprobados activos vencidos confidenciales nuevos adquiridos".split():
            yield (1, word, *both), f"{one} {word} {by} {other}"
            yield (2, word, *both), f"{one} {by} {other} {word}"
            yield (2, word, *both, "que"), f"{one} {by} {other} que están {word}"
            yield (1, "no", word, *both), f"¿Qué {one} {by} {other} no están {word}?"
            yield (1, "no", word, *both), f"{one} no {word} {by} {other}"
            yield (2, "no", word, *both), f"{one} {by} {other} que no están {word}"
        for day in ("2023", "marzo de 2024"):
            yield (1, day, *both), f"{one} en {day} {by} {other}"
            yield (1, "firmados", day, *both), f"{one} firmados en {day} {by} {other}"
            yield (1, "firmados", "para", day, *both), f"{one} firmados para {day} {by} {other}"
            yield (2, "firmados", day, *both), f"{one} {by} {other} que fueron firmados en {day}"
            yield (1, day, 2, "firmados", *both), f"{one} en {day} {by} {other} que fueron firmados"
