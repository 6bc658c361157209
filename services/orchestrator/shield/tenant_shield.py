"""The shield of a tenant's runs: its policy, applied to what tools return, to calls and to the answer."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from services.orchestrator import metrics
from services.orchestrator.events import Suspicion, SuspicionAction
from services.orchestrator.model import Message, ToolCall
from services.orchestrator.partial import language
from services.orchestrator.results import Found, Pages, Passages, Reply, Rows, Source
from services.orchestrator.shield.canary import Canary, canary_of
from services.orchestrator.shield.cited import CitedSources
from services.orchestrator.shield.flows import breach
from services.orchestrator.shield.heard import Heard, Taken, texts_of
from services.orchestrator.shield.judging import Judged, Judging, marks
from services.orchestrator.shield.known_links import KnownLinks
from services.orchestrator.shield.links import LinkFilter
from services.orchestrator.shield.own_words import OwnWords, defaults_among, ours
from services.orchestrator.shield.spotlight import presented, rules
from services.orchestrator.shield.verdicts import Verdicts
from services.orchestrator.text_filter import TextFilter
from services.orchestrator.tools import EXTERNAL, Tool
from services.runtime.recognition.injections.detector import Detector
from services.runtime.tenants import GuardTools, TenantDirectory

log = logging.getLogger(__name__)

# Beyond this, scanning would hold up other runs: it is done beside them.
_SHORT_CHARS = 40_000
_SOURCES = {Passages: "documents", Pages: "web", Rows: "database", Reply: "tool"}
_KINDS: Mapping[str, str] = {
    "order": "orders to the model",
    "reply": "wants to change the answer",
    "task": "asks for other work",
    "hidden": "hidden or encoded orders",
    "model": "orders to the model (classifier)",
    "document": "marked when the document was taken in",
}


@dataclass(frozen=True)
class _TakenIn:
    """A result as the model may read it, what was `judged` of it, and what is to be remembered."""

    admitted: Found
    judged: Sequence[Judged]
    taken: Taken
    orders: Sequence[str]


class TenantShield:
    """See Shield. One for each run."""

    def __init__(
        self,
        tenant_id: str,
        policy: GuardTools,
        tools: Mapping[str, Tool],
        question: str,
        history: Sequence[Message] = (),
        verdicts: Verdicts | None = None,
        secret: bytes = b"",
    ) -> None:
        """`tools`: those of the run, by name. What user and application say in `question` and `history` is trusted."""
        self._policy = policy
        self._tools = tools
        self._verdicts = verdicts or Verdicts()
        self._mark = secrets.token_hex(4)
        self._canary = canary_of(tenant_id, secret)
        self._language = language(question)
        self._heard = Heard()
        self._judging = Judging(policy, self._verdicts)
        self._known = KnownLinks(policy.links, self._heard)
        for text in (question, *(one.text for one in history if one.role in ("user", "system"))):
            self._heard.trust(text)
            self._known.give(text)
        for message in history:
            if message.role == "assistant":  # it was made from what tools returned then
                self._heard.note_text("documents", message.text)

    @property
    def rules(self) -> str:
        """See Shield. The same for all runs of a tenant: prompts that begin alike are read once."""
        return rules(self._canary)

    async def admit(self, call: ToolCall, found: Found) -> tuple[Found, Sequence[Suspicion]]:
        """See Shield."""
        if isinstance(found, Reply) and found.trusted:
            return found, ()
        self._judging.know_harmless(found)
        size = sum(map(len, texts_of(found)[1]))
        slow = size > _SHORT_CHARS or self._verdicts.detector.is_slow
        apart = Taken.apart if slow else Taken.of
        taken_in = await asyncio.to_thread(self._taken_in, found, apart) if slow else self._taken_in(found, apart)
        self._heard.note(taken_in.taken)
        for order in taken_in.orders:
            self._heard.note_order(taken_in.taken.origin, order)
        clean, blamed = ([one for one in taken_in.judged if one.suspicious is bad] for bad in (False, True))
        self._known.note(taken_in.admitted, [one.blamed for one in blamed], [one.text for one in clean])
        if not blamed:
            return taken_in.admitted, ()
        return taken_in.admitted, (self._told(call, blamed),)

    async def admit_message(self, call: ToolCall, text: str) -> tuple[str, Sequence[Suspicion]]:
        """See Shield."""
        tool = self._tools.get(call.name)
        if tool is None or tool.kind != EXTERNAL:
            return text, ()
        admitted, noted = await self.admit(call, Reply(call.name, "{}", text))
        return next(texts_of(admitted)[1]), noted

    def present(self, observation: str, found: Found) -> str:
        """See Shield. The same again for the same observation."""
        if isinstance(found, Reply) and found.trusted:
            return observation
        source = f"{_SOURCES[type(found)]}:{found.tool}" if isinstance(found, Reply) else _SOURCES[type(found)]
        return presented(observation, self._mark, source, warned=self._warns(found))

    def _warns(self, found: Found) -> bool:
        if self._policy.injection != "scan":
            return False
        return bool(marks(found)) or any(self._judging.of_text(one).suspicious for one in texts_of(found)[1])

    def refusal(self, call: ToolCall) -> str:
        """See Shield."""
        if self._policy.arguments == "off":
            return ""
        tool = self._tools.get(call.name)
        found = breach(call.name, call.arguments_json, tool, self._heard, self._policy.flows)
        if found is None:
            return ""
        self._log(call, SuspicionAction.CALL_REFUSED, what=found.what, origin=found.origin or "nobody")
        return found.told

    def outgoing(self) -> TextFilter:
        """See Shield."""
        canary = Canary(self._canary)
        links = LinkFilter(
            self._known.may_link, self._known.may_name, canary, images=self._policy.images, language=self._language
        )
        described = {name: one.description for name, one in self._tools.items()}
        return OwnWords(ours(self.rules, defaults_among(described)), links)

    def cited_only(self, sources: Mapping[int, Source], used: Callable[[], Collection[int]]) -> TextFilter:
        """See Shield."""
        # What marks took apart is whole once some of them were dropped: a link, a tag, the canary.
        cited = CitedSources(sources, used) if self._policy.links == "sources" else None
        known = self._known.may_link if cited is None else self._known.given.__contains__
        canary = Canary(self._canary)
        return LinkFilter(
            known, self._known.may_name, canary, cited=cited, images=self._policy.images, language=self._language
        )

    def _taken_in(self, found: Found, apart: Callable[[Found], Taken]) -> _TakenIn:
        """All that takes its time. It changes nothing of the run, and may happen in any thread."""
        admitted, judged = self._judging.of(found)
        orders = [
            text[one.start : one.end]
            for text in (texts_of(admitted)[1] if self._policy.injection != "off" else ())
            for one in self._judging.suspects(text)
        ]
        orders += () if self._policy.injection == "off" else marks(found)
        # Also what the model may not read: it is not to come back by another way.
        return _TakenIn(admitted, judged, apart(found), orders)

    def _told(self, call: ToolCall, blamed: Sequence[Judged]) -> Suspicion:
        action = {
            "scan": SuspicionAction.FLAGGED,
            "redact": SuspicionAction.REDACTED,
            "block": SuspicionAction.QUARANTINED,
        }[self._policy.injection]
        score = round(max(one.score for one in blamed), 3)
        kinds = ", ".join(sorted({_KINDS[kind] for one in blamed for kind in one.kinds}))
        self._log(call, action, score=score, kinds=kinds)
        return Suspicion(call.id, call.name, action, f"{len(blamed)} text(s) of this result: {kinds}", score)

    def _log(self, call: ToolCall, action: SuspicionAction, **said: object) -> None:
        tool = self._tools.get(call.name)
        kind = tool.kind if tool else "unknown"
        metrics.SUSPICIONS.labels(kind, action.value).inc()
        log.warning("suspicious text of a tool", extra={"tool": kind, "action": action.value, **said})


@dataclass
class Shields:
    """Makes the shields of all runs. `detector` is asked once for texts that several runs read.

    `secret`: of the installation; what its prompts hold is derived from it.
    """

    tenants: TenantDirectory
    detector: Detector = field(default_factory=Detector)
    secret: bytes = b""

    def __post_init__(self) -> None:
        self._verdicts = Verdicts(self.detector)

    def shield_of(
        self, tenant_id: str, tools: Mapping[str, Tool], question: str, history: Sequence[Message]
    ) -> TenantShield:
        """The shield of one run."""
        tenant = self.tenants.get(tenant_id)
        policy = tenant.guard.tools if tenant else GuardTools()
        return TenantShield(tenant_id, policy, tools, question, history, self._verdicts, self.secret)
