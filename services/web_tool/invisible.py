"""Takes out of a text what its reader would not see, and what would come alive where the text goes next."""

import re
import unicodedata

# Format characters, fillers, variation selectors, tags: places to hide instructions from a reader. Line and tab stay.
_INVISIBLE = re.compile(
    "[\0-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffc\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff]+"
)
_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_ZWNJ, _ZWJ = "\u200c", "\u200d"
# Scripts whose spelling needs joiners: Arabic to Samaritan, those of India, Tibetan to Myanmar, Khmer and Mongolian.
_JOINING = re.compile("[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc]")

# A picture makes a browser fetch its address, which could carry data out. Its caption stays, as text.
_MARKDOWN_IMAGE = re.compile(r"!\[([^\[\]\n]{0,300})\]\([^()\n]{0,2000}(?:\([^()\n]{0,200}\)[^()\n]{0,200})?\)")
_MARKED = re.compile(r"!+(?=\[)")
_LIVE_TAG = re.compile(
    r"<(?=/?(?:img|image|picture|source|iframe|frame|script|object|embed|link|meta|svg|video|audio|form|base|style)\b)",
    re.IGNORECASE,
)
# Marks of turns in the templates of chat models, which some servers read within text, and of what wraps our results.
_TURN_MARK = re.compile(
    r"<(?=[|｜][^|｜<>\n]{1,40}[|｜]>)"
    r"|<(?=/?(?:start_of_turn|end_of_turn|bos|eos|s|tool_call|tool_response|tool_result|untrusted|system|assistant)\b[^<>\n]{0,80}>)"
    r"|<(?=<?/?SYS>>)|\[(?=/?(?:INST|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|SYSTEM_PROMPT)\])",
    re.IGNORECASE,
)


def cleaned(text: str) -> tuple[str, bool]:
    """The text without invisible characters, and whether there were any.

    Joiners stay where a script or an emoji needs them, and one selector of presentation after a sign.
    """
    text = _BREAKS.sub("\n", text)
    removed = False

    def keep(found: re.Match[str]) -> str:
        nonlocal removed
        kept = _needed(text, found)
        removed = removed or kept != found[0]
        return kept

    return _INVISIBLE.sub(keep, text), removed


def _needed(text: str, found: re.Match[str]) -> str:
    before = text[found.start() - 1 : found.start()]
    after = text[found.end() : found.end() + 1]
    run = found[0]
    if run in (_ZWNJ, _ZWJ) and _JOINING.match(before) and _JOINING.match(after):
        return run
    if run in ("\ufe0f", "\ufe0e") and _is_sign(before):
        return run
    if run in (_ZWJ, "\ufe0f" + _ZWJ) and _is_sign(before) and _is_sign(after):
        return run
    return ""


def _is_sign(character: str) -> bool:
    """A symbol that may be an emoji, or what may be part of one."""
    return bool(character) and (unicodedata.category(character) in ("So", "Sk", "Sm") or character in "0123456789#*‼⁉")


def defused(text: str) -> tuple[str, bool]:
    """The text with no picture that is fetched, no live tag and no mark of a turn; and whether that changed it."""
    defused = _MARKED.sub("", _MARKDOWN_IMAGE.sub(r"\1", text))
    defused = _LIVE_TAG.sub("&lt;", defused)
    defused = _TURN_MARK.sub(lambda found: found[0] + " ", defused)
    return defused, defused != text
