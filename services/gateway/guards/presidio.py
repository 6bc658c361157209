"""Microsoft Presidio in the place of our own recognisers: names of persons too, where a language model is installed.

An optional extra (dependency group `pii`, and a spaCy model for each language), chosen by SABUESO_PII_ANALYZER.
"""

import importlib
from collections.abc import Sequence
from typing import Any

from services.gateway.guards.recognition import Finder, Finding, NumberFinder, without_overlaps
from services.runtime.settings import WrongSetting

SETTING = "SABUESO_PII_ANALYZER"
_MODELS = {"es": "es_core_news_sm", "en": "en_core_web_sm"}
# What Presidio calls what we have a word for; the others keep theirs, in lower case.
_KINDS = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "IBAN_CODE": "iban",
    "CREDIT_CARD": "card",
    "IP_ADDRESS": "ip",
    "ES_NIF": "national_id",
    "ES_NIE": "national_id",
    "US_SSN": "national_id",
}
# What says nothing of a person.
_LEFT_OUT = {"DATE_TIME", "URL", "NRP", "LOCATION", "ORGANIZATION"}
_LEAST_SCORE = 0.5


def finder_of(analyzer: str) -> Finder:
    """The finder that the setting names: `builtin` or `presidio`. Raises WrongSetting."""
    return PresidioFinder(_engine()) if analyzer == "presidio" else NumberFinder()


class PresidioFinder:
    """Presidio's findings, and ours: its numbers want to be written in one way."""

    near_digits = False

    def __init__(self, engine: Any, languages: Sequence[str] = tuple(_MODELS)) -> None:
        """`engine`: a `presidio_analyzer.AnalyzerEngine` for `languages`."""
        self._engine = engine
        self._languages = languages
        self._numbers = NumberFinder()

    def find(self, text: str) -> Sequence[Finding]:
        """What there is in `text`."""
        kinds: dict[str, str] = _KINDS
        found = [
            Finding(kinds.get(str(one.entity_type), str(one.entity_type).lower()), one.start, one.end)
            for language in self._languages
            for one in self._engine.analyze(text=text, language=language, score_threshold=_LEAST_SCORE)
            if one.entity_type not in _LEFT_OUT
        ]
        return without_overlaps([*self._numbers.find(text), *found])


def _engine() -> Any:
    try:
        analyzer: Any = importlib.import_module("presidio_analyzer")
        nlp: Any = importlib.import_module("presidio_analyzer.nlp_engine")
        for model in _MODELS.values():
            importlib.import_module(model)
    except ImportError as error:
        message = f"`presidio` needs the package `{error.name}`: install the group `pii` and both models, or `builtin`."
        raise WrongSetting(message, SETTING) from None
    models = [{"lang_code": language, "model_name": model} for language, model in _MODELS.items()]
    engine = nlp.NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
    return analyzer.AnalyzerEngine(nlp_engine=engine, supported_languages=list(_MODELS))
