"""A generated collection: identifiers among near misses, in Spanish and English. Our own text, the same each time.

Contracts by number and clause, error codes, part numbers, tax numbers and accounts; for each there are others with two
digits exchanged. Some questions ask for identifiers that nobody has.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from services.evaluation.retrieval.collection import Collection, Passage, Question

NAME = "identifiers"
UNKNOWN = "unknown "
_SEED = 4032
_FAMILIES, _FAMILY_CODES = 20, 4
_CLAUSES = ("7.3", "8.2", "8.3", "8.4")

_TEXTS: dict[tuple[str, str], tuple[str, str]] = {
    ("contract", "es"): (
        "Contrato {code}",
        "{clause} Penalización por retraso. El proveedor abona el {n} % del importe mensual por cada día de retraso.",
    ),
    ("contract", "en"): (
        "Contract {code}",
        "{clause} Penalty for delay. The supplier pays {n} % of the monthly amount for each day of delay.",
    ),
    ("error", "es"): (
        "Códigos de error",
        "{code}: la pasarela de pago rechaza la operación. Espere {n} minutos y repita la petición.",
    ),
    ("error", "en"): ("Error codes", "{code}: the payment gateway declines. Wait {n} minutes and repeat the request."),
    ("part", "es"): ("Catálogo de piezas", "Pieza {code}: válvula de retención, presión máxima {n} bar, acero."),
    ("part", "en"): ("Parts catalogue", "Part {code}: check valve, maximum pressure {n} bar, steel."),
    ("tax number", "es"): ("Proveedores", "Proveedor con NIF {code}; plazo de pago de {n} días."),
    ("tax number", "en"): ("Suppliers", "Supplier with tax number {code}; payment within {n} days."),
    ("account", "es"): ("Cuentas bancarias", "La cuenta {code} cubre gastos de la sede número {n}."),
    ("account", "en"): ("Bank accounts", "Account {code} pays the expenses of office number {n}."),
}
_ASKED: dict[str, tuple[str, ...]] = {
    "error": ("{code}", "{lower}", "{spaced}", "qué significa {code}", "what does {code} mean"),
    "part": ("{code}", "{lower}", "presión máxima de {code}", "maximum pressure of {code}"),
    "tax number": ("{code}", "NIF {code}", "payment terms of supplier {code}"),
    "account": ("{code}", "a qué sede pertenece la cuenta {code}", "which office has account {code}"),
}
_CLAUSE_ASKED = ("cláusula {clause} del contrato {code}", "clause {clause} of contract {code}")


@dataclass
class _Drawn:
    passages: list[Passage] = field(default_factory=list[Passage])
    questions: list[Question] = field(default_factory=list[Question])
    taken: set[str] = field(default_factory=set[str])

    def ask(self, text: str, relevant: Sequence[str], kind: str) -> None:
        number = f"q{len(self.questions):04d}"
        self.questions.append(Question(number, text, frozenset(relevant), kind))


def load() -> Collection:
    """Questions whose kind begins with `UNKNOWN` have no relevant passage."""
    draw = random.Random(_SEED)
    drawn = _Drawn()
    for kind in ("contract", "error", "part", "tax number", "account"):
        for family in range(_FAMILIES):
            language = "es" if family % 2 else "en"
            code, *near, unknown = _near_misses(kind, draw, drawn.taken)
            _add(drawn, kind, code, language, draw)
            for other in near:
                _add(drawn, kind, other, language, draw, asked=False)
            if kind != "contract":
                drawn.ask(unknown, [], UNKNOWN + kind)
    return Collection(NAME, drawn.passages, drawn.questions, family=NAME, floor=0.80)


def _add(drawn: _Drawn, kind: str, code: str, language: str, draw: random.Random, *, asked: bool = True) -> None:
    title, text = _TEXTS[kind, language]
    ids: dict[str, str] = {}
    for clause in _CLAUSES if kind == "contract" else ("",):
        ids[clause] = f"p{len(drawn.passages):04d}"
        filled = text.format(code=code, clause=clause, n=draw.randint(2, 90))
        drawn.passages.append(Passage(ids[clause], filled, title.format(code=code), language, code))
    if not asked:
        return
    if kind == "contract":
        for at, form in enumerate(_CLAUSE_ASKED):
            clause = _CLAUSES[(len(drawn.questions) + at) % len(_CLAUSES)]
            drawn.ask(form.format(clause=clause, code=code), [ids[clause]], "clause")
        drawn.ask(code, list(ids.values()), kind)
        return
    for form in _ASKED[kind]:
        text = form.format(code=code, lower=code.lower(), spaced=code.lower().replace("-", " "))
        drawn.ask(text, [ids[""]], kind)


def _code(kind: str, draw: random.Random) -> str:
    match kind:
        case "contract":
            return f"CT-{draw.randint(2019, 2026)}-{_digits(4, draw)}"
        case "error":
            return f"ERR-{_digits(4, draw)}"
        case "part":
            return f"{''.join(draw.sample('ABHKMRTX', 2))}-{_digits(3, draw)}-{draw.choice('ABC')}"
        case "tax number":
            return f"{draw.choice('ABEG')}{_digits(8, draw)}"
        case _:
            return f"ES{_digits(2, draw)}{_digits(8, draw)}{_digits(10, draw)}"


def _digits(count: int, draw: random.Random) -> str:
    """Never all the same, so that an exchange of two changes them."""
    while len(set(found := "".join(draw.choices("0123456789", k=count)))) < 2:
        pass
    return found


def _near_misses(kind: str, draw: random.Random, taken: set[str]) -> list[str]:
    """A code and three others that differ from it by two exchanged digits or by one digit; none of them `taken`."""
    code = _code(kind, draw)
    while code in taken:
        code = _code(kind, draw)
    found = [code]
    for other in _variants(code, draw):
        if other not in found and other not in taken:
            found.append(other)
        if len(found) == _FAMILY_CODES:
            break
    taken.update(found)
    return found


def _variants(code: str, draw: random.Random) -> Iterator[str]:
    places = [at for at, letter in enumerate(code) if letter.isdigit()][2 if code.startswith("CT-") else 0 :]
    while True:
        one, two = sorted(draw.sample(places, 2))
        yield code[:one] + code[two] + code[one + 1 : two] + code[one] + code[two + 1 :]
        at = draw.choice(places)
        yield code[:at] + draw.choice("0123456789") + code[at + 1 :]
