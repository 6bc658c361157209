"""Units of measure behind a number, in Spanish and English, and what they are worth in each other."""

import re
from collections.abc import Mapping
from decimal import Decimal

# Currencies that are written by their codes: figures in euros, dollars and pounds are read with the number.
CODES = "gbp|chf|jpy|cny|mxn|cad|aud|sek|nok|dkk|pln"
_NAMES = {
    "second": "seconds? segundos? secs?",
    "minute": "minutes? minutos? mins?",
    "hour": "hours? horas? hrs? h",
    "day": "days? dias?",
    "week": "weeks? semanas?",
    "month": "months? mes meses",
    "quarter": "quarters? trimestres?",
    "year": "years? anos?",
    "gram": "grams? gramos? grammes? g",
    "milligram": "milligrams? miligramos? mgs?",
    "microgram": "micrograms? microgramos? mcg",
    "kilogram": "kilograms? kilogramos? kilos? kgs?",
    "tonne": "tonnes? tons? toneladas? t",
    "square metre": "square\\smet(?:re|er)s? metros?\\scuadrados? m2 m²",
    "cubic metre": "cubic\\smet(?:re|er)s? metros?\\scubicos? m3 m³",
    "hectare": "hectares? hectareas?",
    "metre": "metres? meters? metros?",
    "millimetre": "millimetres? millimeters? milimetros? mm",
    "centimetre": "centimetres? centimeters? centimetros? cm",
    "kilometre": "kilometres? kilometers? kilometros? kms?",
    "mile": "miles? millas?",
    "millilitre": "millilitres? milliliters? mililitros? ml",
    "litre": "litres? liters? litros?",
    "degree": "degrees? grados? °c ºc °f",
    "kilowatt hour": "kilowatt[\\s-]hours? kilovatios?[\\s-]hora kwh",
    "kilowatt": "kilowatts? kilovatios? kw",
    "megawatt": "megawatts? megavatios? mw",
    "watt": "watts? vatios?",
    "volt": "volts? voltios?",
    "bar": "bars? bares",
    "decibel": "decibels? decibelios? db",
    "megabyte": "megabytes? megas? mb",
    "gigabyte": "gigabytes? gigas? gb",
    "percentage point": "points? puntos?(?:\\sporcentual(?:es)?)?",
}
# Family, and worth in its smallest unit. Months and days do not convert into each other.
_WORTH: Mapping[str, tuple[str, int]] = {
    "second": ("time", 1), "minute": ("time", 60), "hour": ("time", 3600), "day": ("time", 86_400),
    "week": ("time", 604_800), "month": ("months", 1), "quarter": ("months", 3), "year": ("months", 12),
    "microgram": ("mass", 1), "milligram": ("mass", 1_000), "gram": ("mass", 1_000_000),
    "kilogram": ("mass", 1_000_000_000), "tonne": ("mass", 1_000_000_000_000),
    "millimetre": ("length", 1), "centimetre": ("length", 10), "metre": ("length", 1_000),
    "kilometre": ("length", 1_000_000), "square metre": ("area", 1), "hectare": ("area", 10_000),
    "millilitre": ("volume", 1), "litre": ("volume", 1_000), "cubic metre": ("volume", 1_000_000),
    "watt": ("power", 1), "kilowatt": ("power", 1_000), "megawatt": ("power", 1_000_000),
    "megabyte": ("memory", 1), "gigabyte": ("memory", 1_000),
}  # fmt: skip
_UNIT_OF = [
    (unit, re.compile(rf"(?:{'|'.join(names.split())})(?![\w])"))
    for unit, names in (_NAMES | {code.upper(): code for code in CODES.split("|")}).items()
]
_FIRST = re.compile(
    r"[\s-]*(?:(?P<qualifier>working|business|calendar|consecutive|natural)\s+)?"
    r"(?:of |de |full |whole |further |percentage )?"
)
_BEHIND = re.compile(r"\s+(?P<qualifier>naturales|habiles|laborables|laborales|consecutivos)(?!\w)")
_CODE_BEFORE = re.compile(rf"(?<!\w)({CODES})\s?$")
_QUALIFIERS = {
    "working": "working", "business": "working", "habiles": "working", "laborables": "working", "laborales": "working",
    "calendar": "calendar", "consecutive": "calendar", "natural": "calendar", "naturales": "calendar",
    "consecutivos": "calendar",
}  # fmt: skip


def currency_before(folded: str, start: int) -> str:
    """The currency whose code stands right before the number that starts at `start`, if any."""
    match = _CODE_BEFORE.search(folded[max(0, start - 5) : start])
    return match[1].upper() if match else ""


def unit_after(folded: str, end: int) -> tuple[str, str]:
    """Unit and qualifier (`working`, `calendar`) of the number that ends at `end`; empty where there is none."""
    first = _FIRST.match(folded, end)
    at = first.end() if first else end
    qualifier = first["qualifier"] if first else None
    for unit, pattern in _UNIT_OF:
        if match := pattern.match(folded, at):
            behind = _BEHIND.match(folded, match.end())
            return unit, _QUALIFIERS.get(qualifier or (behind["qualifier"] if behind else ""), "")
    return "", ""


def measure(value: Decimal, unit: str) -> tuple[str, Decimal]:
    """Family of the unit, and the value in the smallest unit of the family."""
    family, worth = _WORTH.get(unit, (unit, 1))
    return family, value * worth
