"""Bytes to characters: by mark, header, declaration in the page or guess, in the charsets that browsers know."""

import codecs
import re

from charset_normalizer import from_bytes

from services.web_tool.unreadable import Unreadable

# Python's name of each charset of the WHATWG standard, with the name of the standard and the decoder to use: browsers
# read Latin-1 as Windows-1252, and so do the people who write pages. Above all not utf-7, which turns `+ADw-` into `<`.
_WEB = {
    "utf-8": ("utf-8", "utf-8"), "utf-16": ("utf-16le", "utf-16-le"), "utf-16-le": ("utf-16le", "utf-16-le"),
    "utf-16-be": ("utf-16be", "utf-16-be"),
    "ascii": ("windows-1252", "cp1252"), "iso8859-1": ("windows-1252", "cp1252"),
    "cp1252": ("windows-1252", "cp1252"), "cp1250": ("windows-1250", "cp1250"), "cp1251": ("windows-1251", "cp1251"),
    "cp1253": ("windows-1253", "cp1253"), "cp1254": ("windows-1254", "cp1254"), "iso8859-9": ("windows-1254", "cp1254"),
    "cp1255": ("windows-1255", "cp1255"), "cp1256": ("windows-1256", "cp1256"), "cp1257": ("windows-1257", "cp1257"),
    "cp1258": ("windows-1258", "cp1258"), "cp874": ("windows-874", "cp874"), "tis-620": ("windows-874", "cp874"),
    "iso8859-11": ("windows-874", "cp874"), "cp866": ("ibm866", "cp866"), "koi8-r": ("koi8-r", "koi8-r"),
    "koi8-u": ("koi8-u", "koi8-u"), "mac-roman": ("macintosh", "mac-roman"),
    "mac-cyrillic": ("x-mac-cyrillic", "mac-cyrillic"), "gb2312": ("gbk", "gb18030"), "gbk": ("gbk", "gb18030"),
    "gb18030": ("gb18030", "gb18030"), "big5": ("big5", "big5hkscs"), "big5hkscs": ("big5", "big5hkscs"),
    "cp950": ("big5", "big5hkscs"), "shift_jis": ("shift_jis", "cp932"), "cp932": ("shift_jis", "cp932"),
    "euc_jp": ("euc-jp", "euc_jp"), "iso2022_jp": ("iso-2022-jp", "iso2022_jp"), "euc_kr": ("euc-kr", "cp949"),
    "cp949": ("euc-kr", "cp949"),
    **{f"iso8859-{n}": (f"iso-8859-{n}", f"iso8859-{n}") for n in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)},
}  # fmt: skip
_GUESSED = ("cp1252", "cp932", "cp1251", "gb18030", "big5", "cp949", "euc_jp", "cp1250", "cp1253", "koi8_r", "cp1256")
# What Western European texts consist of beyond ASCII; the rest of Windows-1252 is mostly a sign of another charset.
_WESTERN = re.compile("[À-ÖØ-öø-ÿŒœŠšŽžŸ€‘’‚“”„–—…•™«»¡¿§©®°±²³µ·ºª¼½¾×\u00a0´`¨£¥¢‹›†]")
_ACCENTS_IN_A_ROW = re.compile("[À-ÖØ-öø-ÿŒœŠšŽžŸ]{3,}")
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta\b[^>]{0,500}?charset\s*=\s*[\"']?\s*([^\s\"'>;/]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml\b[^>]{0,200}?encoding\s*=\s*[\"']\s*([^\s\"']{1,40})", re.IGNORECASE)
# A declaration belongs into the first kilobyte, but some pages have long heads.
_SEARCHED_BYTES = 128 * 1024
_SAMPLE_BYTES = 64 * 1024


def decode(body: bytes, content_type: str, *, is_markup: bool) -> tuple[str, str]:
    """Characters and the name of their charset; bytes that it does not have become U+FFFD.

    Raises Unreadable for a charset that no browser reads.
    """
    for bom, codec in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(codec, "replace"), _WEB[codec][0]
    for label in _labels(body, content_type, is_markup=is_markup):
        found = _known(label)
        if found is not None:
            name, codec = found
            return body.decode(codec, "replace"), name
    return _guessed(body)


def _labels(body: bytes, content_type: str, *, is_markup: bool) -> list[str]:
    labels = [found[1]] if (found := _HEADER.search(content_type)) else []
    if is_markup:
        for pattern in (_XML, _META):
            declared = pattern.match(body) if pattern is _XML else pattern.search(body, 0, _SEARCHED_BYTES)
            label = declared[1].decode("latin-1").lower() if declared else ""
            # It could be read as ASCII, so it is not what it says (WHATWG, "prescan a byte stream").
            labels.append("utf-8" if label.startswith("utf-16") else label)
    return [label for label in labels if label]


def _known(label: str) -> tuple[str, str] | None:
    """Name and decoder of a charset; None for a word that names none. Raises Unreadable for one not of the web."""
    label = label.lower().removeprefix("x-").replace("windows-31j", "cp932").replace("ks_c_5601-1987", "euc_kr")
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    if name not in _WEB:
        # Its name as Python has it: that of the page may be any words.
        raise Unreadable("charset", f"The page is in a charset that is not read ({name[:20]}).")
    return _WEB[name]


def _guessed(body: bytes) -> tuple[str, str]:
    sample = body[:_SAMPLE_BYTES]
    for offset, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        # Every other byte of Western text is zero.
        if sample[offset::2].count(0) > 0.4 * len(sample[offset::2]):
            return body.decode(codec, "replace"), _WEB[codec][0]
    try:
        return body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError as error:
        # Cut off at the size limit, in the middle of a character.
        if error.reason == "unexpected end of data" and not body[: error.start].isascii():
            return body[: error.start].decode("utf-8"), "utf-8"
    # The sample starts where the text stops being ASCII: 20 kB of markup tell nothing.
    first = next((index for index, byte in enumerate(body) if byte > 127), 0)
    sample = body[max(0, first - 1024) :][:_SAMPLE_BYTES]
    if _is_western(sample.decode("cp1252", "replace")):
        return body.decode("cp1252", "replace"), _WEB["cp1252"][0]
    best = from_bytes(sample, cp_isolation=list(_GUESSED), enable_fallback=False).best()
    name, codec = _WEB[codecs.lookup(best.encoding).name if best else "cp1252"]
    return body.decode(codec, "replace"), name


def _is_western(text: str) -> bool:
    """Western words have single accents among plain letters; other scripts read as Western have rows of odd signs."""
    beyond = [character for character in text if character > "\x7f"]
    in_rows = sum(len(row) for row in _ACCENTS_IN_A_ROW.findall(text))
    return sum(not _WESTERN.match(one) for one in beyond) <= 0.1 * len(beyond) and in_rows <= 0.3 * len(beyond)
