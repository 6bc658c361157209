"""Makes answers with right and with wrong citations and numbers from true claims, by rules and with a fixed seed."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.orchestrator.citing.figures import Kind, figures
from services.orchestrator.citing.source_text import read
from services.orchestrator.citing.statement import statement
from services.orchestrator.results import Rows, Source
from services.orchestrator.trials.citation_claims import Claim, Material
from services.runtime.expressions.quantities import quantities

_DISTRACTORS = 2
# Claims that say what a source does not.
ABSENCE = "absence"
# In every rule the first group goes, and the second text comes in its place.
_UNITS = (
    (r"\b(days?)\b", "weeks"), (r"\b(weeks?)\b", "months"), (r"\b(hours?)\b", "days"), (r"\b(minutes?)\b", "hours"),
    (r"\b(months?)\b", "years"), (r"\b(years?)\b", "months"), (r"\b(seconds?)\b", "minutes"), (r"\b(grams)\b", "kilos"),
    (r"\b(días?)\b", "semanas"), (r"\b(semanas?)\b", "meses"), (r"\b(horas?)\b", "días"), (r"\b(mes(?:es)?)\b", "años"),
    (r"\b(años?)\b", "meses"), (r"\b(kg)\b", "toneladas"), (r"(\bEUR\b|€|\beuros\b)", "USD"),
    (r"\b(dólares)\b", "euros"),
    (r"\b(dollars)\b", "euros"), (r"( ?%)", " EUR"), (r"\b(working days)\b", "calendar days"),
    (r"(días hábiles|días laborables)", "días naturales"), (r"(días naturales)", "días hábiles"),
)  # fmt: skip
_QUALIFIERS = ("working ", "calendar ", "business ")
_NEGATED = (
    (r"\b(may only|only)\b", "not"),
    (r"\b(is|are|was|were|must|may|can|has to|have to)(?= )(?! not)", r"\1 not"),
    (r"\b(needs|takes|gets|requires|applies|become|became|leads|led|fell|rose|costs?|lasts?|covers|support(?:s|ed)?"
     r"|include[sd]?|seized|asked|steps in|go onto|pay|earn|rank[s]?|sit|found|put|expires|dates|ended|tended"
     r"|overtook|had)\b", r"never \1"),
    (r"(?<=\w )(es|son|está|están|fue|fueron|era|eran|puede|pueden|debe|deben|se|tiene|tienen|hay|hace|recibe|llega"
     r"|llevan?|cierran?|habla|termina|caduca|firma|sirve|alcanza|alcanzó|aumentó|dura|duró|murió|mató|dibuja|influyó|terminó|fundó"
     r"|cerrarán|necesitan?|corresponde|vale|paga|pagan|paran|baja|cotiza|cobran)\b", r"no \1"),
)  # fmt: skip
_AFFIRMED = (
    (r"\b(not )(?!only)", ""), (r"\b(cannot)\b", "can"), (r"\b(never )", "always "), (r"\b(No )(?=hay|se )", "Sí "),
    (r"\b(no )(?=\w)", ""), (r"\b(ni )", "y "), (r"\b(Nobody)\b", "Everybody"), (r"\b(without)\b", "with"),
)  # fmt: skip
_DIRECTIONS = (
    (r"\b(at least)\b", "at most"), (r"\b(at most|up to)\b", "at least"), (r"\b(before)\b", "after"),
    (r"\b(more than|over|above)\b", "less than"), (r"\b(less than|under|below)\b", "more than"),
    (r"\b(al menos)\b", "como máximo"), (r"\b(como (?:máximo|mucho)|hasta)\b", "al menos"), (r"\b(antes)\b", "después"),
    (r"\b(por encima)\b", "por debajo"), (r"\b(más de)\b", "menos de"), (r"\b(menos de)\b", "más de"),
    (r"\b(baja|bajó)\b", "sube"), (r"\b(fell)\b", "rose"), (r"\b(down to)\b", "up to"), (r"\b(allowed)\b", "forbidden"),
    (r"\b(permite)\b", "prohíbe"), (r"\b(acceptable)\b", "forbidden"), (r"\b(active)\b", "inactive"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """An answer and its sources by mark, from 1. `right`: nothing is wrong with it.

    `planted`: the sentence that is wrong, in an answer of several; empty where there is one alone.
    """

    right: bool
    kind: str
    language: str
    test: bool
    answer: str
    sources: tuple[Source, ...]
    planted: str = ""


def make_cases(material: Material, seed: int = 20) -> list[Case]:
    """All cases: each claim as it is, and each wrong form of it that a rule can make."""
    made: list[Case] = []
    for claim in material.claims:
        maker = _Maker(material, claim, random.Random(f"{seed} {claim.source_id} {claim.text}"))
        made.extend(maker.right())
        made.extend(maker.wrong())
    return made


class _Maker:
    """The cases of one claim."""

    def __init__(self, material: Material, claim: Claim, dice: random.Random) -> None:
        self._material, self._claim, self._dice = material, claim, dice
        self._own = material.sources[claim.source_id]
        self._text = read(self._own).text
        self._others = self._neighbours()

    def _neighbours(self) -> list[str]:
        """Other sources in the same language, those of the same document first, and never the same text translated."""
        mine, known = self._claim.source_id, self._material
        stem = mine.rpartition(".")[0]
        others = [one for one in known.sources if one != mine and (not stem or not one.startswith(f"{stem}."))]
        side = known.documents[mine] in known.tests
        others = [one for one in others if (known.documents[one] in known.tests) is side]
        others = [one for one in others if known.languages[one] == known.languages[mine]]
        self._dice.shuffle(others)
        return sorted(others, key=lambda one: known.documents[one] != known.documents[mine])

    def right(self) -> Iterator[Case]:
        claim = self._claim
        kind = claim.kind
        spoken = self._material.languages[claim.source_id]
        if kind == "paraphrased" and spoken and spoken != claim.language:
            kind = "cross_lingual"
        yield self._case(kind, claim.text, right=True)
        if figures(claim.text) and self._dice.random() < 0.4:
            yield self._case("uncited", claim.text, right=True, cited=False)
        if kind in ("paraphrased", "cross_lingual"):
            yield from self._counted()
        others = [
            one
            for one in self._material.claims
            if one.source_id == self._others[0] and one.language == claim.language and ABSENCE not in (kind, one.kind)
        ]
        if others and self._dice.random() < 0.6:
            yield self._composed(others[0])

    def _counted(self) -> Iterator[Case]:
        """The claim with how many of the documents found say it, rightly and wrongly."""
        known, claim = self._material, self._claim
        strangers = [one for one in self._others if known.documents[one] != known.documents[claim.source_id]]
        ids = [claim.source_id, *{known.documents[one]: one for one in strangers}.values()][:4]
        if len(ids) < 3 or self._dice.random() < 0.5:
            return
        self._dice.shuffle(ids)
        found = {"en": "in 1 of the {} documents found", "es": "en 1 de los {} documentos encontrados"}[claim.language]
        for right, count in ((True, len(ids)), (False, len(ids) + 7)):
            answer = f"{claim.text.rstrip('.')} ({found.format(count)}) [{ids.index(claim.source_id) + 1}]."
            kind = "counted" if right else "miscounted"
            yield Case(right, kind, claim.language, self._test, answer, tuple(known.sources[one] for one in ids))

    def _composed(self, other: Claim) -> Case:
        first, second = self._claim.text.rstrip("."), other.text
        joined = {"es": "y", "en": "and"}[self._claim.language]
        small = second[:1].lower() + second[1:] if second.split()[0].istitle() and not second[1:2].isupper() else second
        answer = f"{first}, {joined} {small.rstrip('.')} [1][2]."
        sources = (self._own, self._material.sources[other.source_id])
        return Case(True, "composed", self._claim.language, self._test, answer, sources)

    def wrong(self) -> Iterator[Case]:
        claim = self._claim
        if claim.kind == ABSENCE:  # true of every source
            return
        yield self._case("swapped_source", claim.text, right=False, own=False)
        yield self._case("wrong_mark", claim.text, right=False, mark_of=self._others[0])
        # A table has no units of its own, and nothing that a negation could deny.
        in_words: tuple[tuple[str, Callable[[], str]], ...] = (
            ("changed_unit", self._other_unit),
            ("negation", lambda: self._by_rule(_AFFIRMED) or self._by_rule(_NEGATED)),
            ("direction", lambda: self._by_rule(_DIRECTIONS)),
        )
        changes: tuple[tuple[str, Callable[[], str]], ...] = (
            ("changed_number", self._other_number),
            ("other_entity", self._other_name),
            *(() if isinstance(self._own, Rows) else in_words),
        )
        for kind, change in changes:
            text = change()
            if text and text != claim.text:
                yield self._case(kind, text, right=False)
        if (text := self._other_number(anywhere=True)) and self._dice.random() < 0.5:
            yield self._case("uncited_number", text, right=False, cited=False)

    @property
    def _test(self) -> bool:
        return self._material.documents[self._claim.source_id] in self._material.tests

    def _case(
        self, kind: str, text: str, *, right: bool, own: bool = True, cited: bool = True, mark_of: str = ""
    ) -> Case:
        known = self._material.sources
        ids = ([self._claim.source_id] if own else []) + self._others[:_DISTRACTORS]
        cited_id = mark_of or ids[0]
        self._dice.shuffle(ids)
        mark = f" [{ids.index(cited_id) + 1}]" if cited else ""
        answer = f"{text.rstrip('.')}{mark}."
        return Case(right, kind, self._claim.language, self._test, answer, tuple(known[one] for one in ids))

    def _by_rule(self, rules: Sequence[tuple[str, str]]) -> str:
        fitting = [(pattern, text) for pattern, text in rules if re.search(pattern, self._claim.text)]
        if not fitting:
            return ""
        pattern, text = fitting[0] if rules in (_NEGATED, _AFFIRMED) else self._dice.choice(fitting)
        return re.sub(pattern, text, self._claim.text, count=1)

    def _other_number(self, *, anywhere: bool = False) -> str:
        """The claim with one number that its source, or with `anywhere` no source of the case, has."""
        text = self._text
        if anywhere:
            text += "\n".join(read(self._material.sources[one]).text for one in self._others[:_DISTRACTORS])
        claim = self._claim.text
        numbers = [one for one in figures(claim) if one.kind is Kind.NUMBER and re.search(r"\d", one.text)]
        if not numbers:
            return ""
        one = self._dice.choice(numbers)
        known = re.findall(r"\d[\d.,]*\d|\d", text)
        values = {each.value for each in quantities(text)}
        for _ in range(20):
            written = self._shifted(re.search(r"\d[\d.,]*\d|\d", one.text))
            changed = one.text.replace(written[0], written[1], 1)
            if written[1] not in known and not values & {each.value for each in quantities(changed)}:
                return claim[: one.start] + claim[one.start :].replace(one.text, changed, 1)
        return ""

    def _other_unit(self) -> str:
        """The claim with the unit behind one of its numbers changed."""
        claim = self._claim.text
        numbers = [one for one in figures(claim) if one.unit]
        self._dice.shuffle(numbers)
        for one in numbers:
            head, tail = claim[: one.start], claim[one.start :]
            for pattern, text in self._dice.sample(_UNITS, len(_UNITS)):
                match = re.search(pattern, tail)
                if match and (match.start() <= len(one.text) + 1 or tail[: match.start()].endswith(_QUALIFIERS)):
                    return head + tail[: match.start(1)] + text + tail[match.end(1) :]
        return ""

    def _shifted(self, written: re.Match[str] | None) -> tuple[str, str]:
        """A number as written, and with one digit changed, or twice as large."""
        text = written.group() if written else ""
        places = [at for at, character in enumerate(text) if character.isdigit() and (character != "0" or at == 0)]
        at = self._dice.choice(places)
        digit = self._dice.choice([one for one in "123456789" if one != text[at]])
        return text, text[:at] + digit + text[at + 1 :]

    def _other_name(self) -> str:
        """The claim with the name of someone else, whom the source does not know."""
        names = _names(self._claim.text)
        if not names:
            return ""
        material = self._material
        mine = material.documents[self._claim.source_id]
        strangers = sorted(
            {
                name
                for other in material.claims
                if material.documents[other.source_id] != mine
                and (material.documents[other.source_id] in material.tests) is self._test
                for name in _names(other.text)
                if name.lower() not in self._text.lower() and len(name) > 3 and not name.isupper()
            }
        )
        return self._claim.text.replace(self._dice.choice(names), self._dice.choice(strangers), 1) if strangers else ""


@lru_cache(maxsize=4096)
def _names(text: str) -> tuple[str, ...]:
    return tuple(name for run in statement(text).names for name in run)
