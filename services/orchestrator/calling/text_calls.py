"""Finds tool calls in the text that a model writes, while it comes: what may become a call is held, the rest flows."""

import re
from dataclasses import dataclass, field

from services.orchestrator.calling.profiles import Form, Profile
from services.orchestrator.calling.written_calls import (
    NotACall,
    Offered,
    WrittenCall,
    bare_calls,
    is_near,
    marked_calls,
)

_CLOSED_BY = {
    Form.THOUGHT: "</think>",
    Form.TOOL_CALL_TAG: "</tool_call>",
    Form.FUNCTION_TAG: "</function>",
}
# What must follow a mark that is meant as one: texts speak of marks, too.
_FOLLOWED_BY = {
    Form.TOOL_CALL_TAG: re.compile(r"[{\[`<]"),
    Form.FUNCTION_TAG: re.compile(r"\w"),
    Form.PYTHON_TAG: re.compile(r"."),
    Form.THOUGHT: re.compile(r"."),
    Form.TOOL_CALLS_MARK: re.compile(r"[\[{`\w]"),
}
# White space that may stand before what is looked for.
_MOST_SPACE = 40
_NOTHING_OR_SPACE = re.compile(rf"\s{{0,{_MOST_SPACE}}}")
# The first key of an object that is meant as a call, and how that begins. Fences only around all of the text.
_LEAD = r"(?:\[\s{0,40}){0,2}\{\s{0,40}[\"']"
_BARE = re.compile(
    rf"(?:```[a-z_]{{0,12}}\s{{0,20}})?{_LEAD}"
    r"(?:(?:type|id|arguments|parameters)[\"']|(?:name|function)[\"']\s{0,40}:\s{0,40}(?:[\"']([^\"']{1,64})[\"']|\{))"
)
_BARE_BEGUN = re.compile(
    r"`{1,2}|(?:```[a-z_]{0,12}\s{0,20})?(?:\[\s{0,40}){0,2}"
    r"(?:\{\s{0,40}(?:[\"'][a-z]{0,10}(?:(?<=name|tion)[\"']\s{0,40}(?::\s{0,40}(?:[\"'][^\"']{0,64})?)?)?)?)?"
)
_MOST_BARE_LEAD = 400
# Without any of this, what follows a mark speaks of something else.
_IS_CALL = re.compile(r"\{|<parameter|\[ARGS\]|</function>|\(")
_LINE_BREAK_HELD = re.compile(rf"\n[ \t]{{0,{_MOST_SPACE}}}\Z")


@dataclass
class CallText:
    """The text of one turn. `offered`: the tools on offer; with none, calls without marks are text."""

    profile: Profile
    offered: Offered
    calls: list[WrittenCall] = field(default_factory=list[WrittenCall])
    malformed: str = ""
    _waiting: str = ""
    _fresh: bool = True
    _inside: Form | None = None
    _span: list[str] = field(default_factory=list[str])
    _tail: str = ""

    def __post_init__(self) -> None:
        forms = [form for form in self.profile.forms if form is not Form.BARE_JSON]
        self._marks = [mark for form in forms for mark in (form.value, _CLOSED_BY.get(form, "")) if mark]
        self._bare = Form.BARE_JSON in self.profile.forms and bool(self.offered)
        marked = [f"(?P<mark>{'|'.join(map(re.escape, self._marks))})"] if self._marks else []
        later = [rf"\n[ \t]{{0,{_MOST_SPACE}}}(?P<later>[{{\[])"] if self._bare else []
        first = [rf"\A\s{{0,{_MOST_SPACE}}}(?P<first>[{{\[`])"] if self._bare else []
        self._begins = {
            fresh: re.compile("|".join([*marked, *later, *(first if fresh else ())]) or r"(?!)")
            for fresh in (True, False)
        }

    def feed(self, piece: str) -> str:
        """What of the text can be shown now."""
        shown: list[str] = []
        while piece:
            if self._inside:
                closed, piece = self._held(piece)
                shown.append(closed)
            else:
                self._waiting += piece
                shown.append(self._flow(last=False))
                piece = ""
                if self._inside:
                    piece, self._waiting = self._waiting, ""
        return "".join(shown)

    def finish(self, *, cut: bool) -> str:
        """What is still to be shown; `calls` and `malformed` are complete then. `cut`: no more could be written."""
        shown = self._flow(last=True)
        while self._inside:
            closed, self._waiting = self._held(self._waiting)
            shown += closed
            if self._inside:
                self._waiting = ""
                shown += self._closed("".join(self._span), "", cut=cut)
            shown += self._flow(last=True)
        return shown

    def _flow(self, *, last: bool) -> str:
        """What can be shown of what waits. The rest waits on, or is the beginning of what has begun."""
        shown, position = "", 0
        while not self._inside and (match := self._begins[self._fresh].search(self._waiting, position)):
            kind = match.lastgroup or ""
            start = match.start(kind)
            meant = self._mark_is_meant(match) if kind == "mark" else self._bare_is_meant(start)
            if meant is None and not last:
                return shown + self._show(match.start())
            position = max(start, match.start() + 1)
            if meant:
                shown, position = shown + self._show(start), 0
                self._begin(match[kind] if kind == "mark" else "")
        if self._inside:
            return shown
        return shown + self._show(len(self._waiting) if last else self._may_begin_at())

    def _begin(self, mark: str) -> None:
        self._waiting = self._waiting[len(mark) :]
        if mark in _CLOSED_BY.values():  # what began it stood in the prompt, or was left out
            self._fresh = self._fresh or mark == _CLOSED_BY[Form.THOUGHT]
        else:
            self._inside = Form(mark) if mark else Form.BARE_JSON

    def _show(self, end: int) -> str:
        shown, self._waiting = self._waiting[:end], self._waiting[end:]
        self._fresh = self._fresh and not shown
        return shown

    def _may_begin_at(self) -> int:
        """From where on the text may be the beginning of something."""
        text, at = self._waiting, len(self._waiting)
        if self._fresh and self._bare and _NOTHING_OR_SPACE.fullmatch(text):
            return 0
        for mark in self._marks:
            sizes = range(min(len(mark) - 1, len(text)), 0, -1)
            at = min(at, len(text) - next((size for size in sizes if text.endswith(mark[:size])), 0))
        line = _LINE_BREAK_HELD.search(text) if self._bare else None
        return min(at, line.start()) if line else at

    def _mark_is_meant(self, match: re.Match[str]) -> bool | None:
        """Whether it is followed by what may be a call; None while that is not known. One that ends nothing is none."""
        if match[0] in _CLOSED_BY.values():
            return match[0] == _CLOSED_BY[Form.THOUGHT] or bool(self.calls)
        rest = self._waiting[match.end() : match.end() + _MOST_SPACE + 1].lstrip()
        if rest:
            return bool(_FOLLOWED_BY[Form(match[0])].match(rest))
        return None if len(self._waiting) - match.end() <= _MOST_SPACE else False

    def _bare_is_meant(self, start: int) -> bool | None:
        """Whether an object begins as a call does; None while that is not known."""
        text = self._waiting[start : start + _MOST_BARE_LEAD]
        if match := _BARE.match(text):
            return match[1] is None or is_near(match[1], self.offered)
        return None if len(text) < _MOST_BARE_LEAD and _BARE_BEGUN.fullmatch(text) else False

    def _held(self, piece: str) -> tuple[str, str]:
        """Takes what comes after a mark. What is to be shown of it once it has ended, and what comes after it."""
        closer = _CLOSED_BY.get(self._inside, "") if self._inside else ""
        self._span.append(piece)
        seen = self._tail + piece
        at = seen.find(closer) if closer else -1
        if at < 0:
            self._tail = seen[1 - len(closer) :] if closer else ""
            return "", ""
        after = seen[at + len(closer) :]
        whole = "".join(self._span)
        return self._closed(whole[: len(whole) - len(after) - len(closer)], closer, cut=False), after

    def _closed(self, body: str, closer: str, *, cut: bool) -> str:
        """Reads what was held. What of it is to be shown, after all."""
        form, self._inside, self._span, self._tail = self._inside, None, [], ""
        if form is Form.THOUGHT or form is None:
            self._fresh = True
            return ""
        try:
            if form is Form.BARE_JSON:
                calls = bare_calls(body, self.offered, cut=cut)
                self.calls += calls
                return "" if calls else body
            self.calls += marked_calls(form, body, self.offered, cut=cut)
        except NotACall as error:
            if form is not Form.BARE_JSON and not _IS_CALL.search(body):
                return form.value + body + closer
            self.malformed = str(error)
        return ""
