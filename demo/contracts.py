"""The text of a contract's document, as Markdown: the tables' facts, ten clauses, and its special conditions."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from demo.dice import Dice
from demo.world import COMPANY, Contract, World, read_wording

_MONTHS = {
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split(),
    "en": "January February March April May June July August September October November December".split(),
}
_COUNTRIES = {
    "es": {
        "ES": "España", "PT": "Portugal", "FR": "Francia", "DE": "Alemania", "IT": "Italia", "NL": "Países Bajos",
        "IE": "Irlanda", "PL": "Polonia", "AT": "Austria", "SE": "Suecia", "GB": "Reino Unido", "US": "Estados Unidos",
        "CA": "Canadá", "MX": "México", "CO": "Colombia", "CL": "Chile", "AR": "Argentina", "PE": "Perú",
        "JP": "Japón", "AU": "Australia", "SG": "Singapur", "IN": "India",
    },
    "en": {
        "ES": "Spain", "PT": "Portugal", "FR": "France", "DE": "Germany", "IT": "Italy", "NL": "Netherlands",
        "IE": "Ireland", "PL": "Poland", "AT": "Austria", "SE": "Sweden", "GB": "United Kingdom", "US": "United States",
        "CA": "Canada", "MX": "Mexico", "CO": "Colombia", "CL": "Chile", "AR": "Argentina", "PE": "Peru",
        "JP": "Japan", "AU": "Australia", "SG": "Singapore", "IN": "India",
    },
}  # fmt: skip


def country_name(code: str, language: str) -> str:
    """Name of an ISO 3166 country in `es` or `en`."""
    return _COUNTRIES[language][code]


def money(amount: Decimal, language: str) -> str:
    """An amount of EUR as people write it: `184.500,00 €` or `€184,500.00`."""
    english = f"{amount:,.2f}"
    return english.translate(str.maketrans(",.", ".,")) + " €" if language == "es" else "€" + english


def day(value: date, language: str) -> str:
    """A date as people write it."""
    month = _MONTHS[language][value.month - 1]
    return f"{value.day} de {month} de {value.year}" if language == "es" else f"{value.day} {month} {value.year}"


def title(contract: Contract) -> str:
    """The document's title."""
    return read_wording()[contract.language]["title"].format(id=contract.id, title=contract.title)


def write(world: World, contract: Contract) -> str:
    """The whole document. Raises KeyError when the world has no document for the contract."""
    language = contract.language
    wording = read_wording()
    texts = wording[language]
    values = _values(world, contract, wording)
    # Its own dice: changing one document's texts leaves the others as they are.
    dice = Dice(int(contract.id.replace("CT-", "").replace("-", "")))
    conditions = [wording["conditions"][kind] for kind in world.conditions[contract.id]]
    parts = [f"# {title(contract)}", texts["intro"].format(**values), _facts(texts["facts"], values)]
    for clause in texts["clauses"]:
        parts.append(f"## {clause['heading']}")
        parts.extend(_clause(clause, conditions, texts, values, dice))
    parts.append(f"## {texts['special']['heading']}")
    if conditions:
        parts.append(texts["special"]["some"].format(**values))
        ordered = sorted(conditions, key=lambda condition: float(condition["clause"]))
        parts.extend(texts["special"]["one"].format(clause=c["clause"], short=c[language]["short"]) for c in ordered)
    else:
        parts.append(texts["special"]["none"].format(**values))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _values(world: World, contract: Contract, wording: Mapping[str, Any]) -> dict[str, Any]:
    if contract.signed_on is None:
        raise ValueError(f"{contract.id} is a draft; only signed contracts have a document")
    language = contract.language
    provider = world.provider(contract)
    category = wording["categories"][contract.category][language]
    return {
        "id": contract.id,
        "title": contract.title,
        "company": COMPANY,
        "provider": provider.name,
        "country": country_name(provider.country, language),
        "amount": money(contract.amount, language),
        "date": day(contract.signed_on, language),
        "category": category["name"],
        "work": category["work"],
        "site": contract.site,
        "term": contract.term_months,
        "installments": sum(payment.contract_id == contract.id for payment in world.payments),
    }


def _facts(labels: list[str], values: Mapping[str, Any]) -> str:
    names = ("id", "provider", "country", "amount", "date", "category", "site")
    header, *labels = labels
    rows = [f"| {label} | {values[name]} |" for label, name in zip(labels, names, strict=True)]
    return "\n".join([header, "| --- | --- |", *rows])


def _clause(
    clause: Mapping[str, Any],
    conditions: list[Mapping[str, Any]],
    texts: Mapping[str, Any],
    values: Mapping[str, Any],
    dice: Dice,
) -> list[str]:
    """The clause's paragraphs: the ordinary ones in one of their texts, then its special conditions, marked."""
    number = clause["heading"].split(".")[0]
    mark = texts["special"]["mark"]
    language = "es" if mark == "condición especial" else "en"
    special = [
        f"**{c['clause']} {c[language]['name']} ({mark}).** {dice.pick(c[language]['texts']).strip()}"
        for c in conditions
        if c["clause"].split(".")[0] == number
    ]
    if "price" in clause:
        return [*(special or [clause["fixed"]]), clause["price"].format(**values)]
    return [dice.pick(clause["texts"]).format(**values), *special]
