"""Looks whether a document gives orders to a model: it would be read to one later (corpus poisoning).

What its reader is not meant to see is looked at more closely: there is hardly a good reason to hide a sentence.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from services.ingestion import metrics
from services.ingestion.cutting.chunking import Chunk
from services.ingestion.parsed import Hidden, Unreadable
from services.runtime.recognition.injections.detector import HARMLESS_BELOW, Detector, Suspect
from services.runtime.tenants import GuardDocuments

SCORE_FIELD, PASSAGES_FIELD = "injection_score", "injection_passages"
# So many passages are named, and so many parts of each are marked; the rest is counted.
_MOST_NAMED, _MOST_MARKED = 20, 20


@dataclass(frozen=True)
class Suspicion:
    """What was found. `warning` is for the person who sent the document; `metadata` goes into the index.

    `chunks`: the same as before, with who judged them, and those that give orders with marks.
    """

    chunks: Sequence[Chunk]
    warning: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Screening:
    """Screens documents as their tenant wants it. `policy_of` knows a tenant by its id."""

    policy_of: Callable[[str], GuardDocuments] = lambda _: GuardDocuments()
    detector: Detector = field(default_factory=Detector)

    async def screened(self, tenant_id: str, chunks: Sequence[Chunk], hidden: Sequence[Hidden] = ()) -> Suspicion:
        """What is to be said of a document. `hidden`: what nobody sees of it.

        Raises Unreadable where it must not be stored.
        """
        policy = self.policy_of(tenant_id)
        if policy.injection == "off":
            return Suspicion(chunks)
        return await asyncio.to_thread(self._screened, policy, chunks, hidden)

    def _screened(self, policy: GuardDocuments, chunks: Sequence[Chunk], hidden: Sequence[Hidden]) -> Suspicion:
        unseen = [(one, self.detector.hidden_score(one.text)) for one in hidden]
        unseen = [(one, score) for one, score in unseen if score >= policy.injection_score]
        marked = list(self._scanned(chunks, unseen, policy.injection_score))
        blamed = [chunk for chunk in marked if chunk.suspicious]
        if not blamed and not unseen:
            return Suspicion(marked)
        metrics.SUSPICIOUS_DOCUMENTS.labels(policy.injection).inc()
        where = "; ".join([*([_where(blamed)] if blamed else ()), *([_hidden_where(unseen)] if unseen else ())])
        if policy.injection == "block":
            raise Unreadable(f"The document seems to give orders to a language model ({where}); it was not stored.")
        scores = [*(one.score for chunk in blamed for one in chunk.suspicious), *(score for _, score in unseen)]
        return Suspicion(
            marked,
            f"Some of the text seems to give orders to a language model ({where}). It is stored and marked, and models "
            "are not shown those sentences unless the tenant's policy says so; check where the document comes from.",
            {
                SCORE_FIELD: f"{max(scores):.2f}",
                PASSAGES_FIELD: ",".join(str(chunk.position) for chunk in blamed[:_MOST_NAMED]),
            },
        )

    def _scanned(
        self, chunks: Sequence[Chunk], unseen: Sequence[tuple[Hidden, float]], least: float
    ) -> Iterator[Chunk]:
        """The chunks with what was found in them, from `least` on, and how the text looks that is read in their place.

        Several in a row are read as the same text, which is judged once.
        """
        parent, parent_score = "", 0.0
        for chunk in chunks:
            suspects = list(self.detector.suspects(chunk.text, "data", min(least, HARMLESS_BELOW)))
            found = [*(one for one in suspects if one.score >= least), *_shown(chunk.text, unseen)]
            if chunk.parent_text and chunk.parent_text != parent:
                parent = chunk.parent_text
                suspected = _worst(self.detector.suspects(parent, "data", HARMLESS_BELOW))
                # Hidden text may stand in what another chunk is cut from.
                parent_score = max([suspected, *(one.score for one in _shown(parent, unseen))])
            scanned = replace(
                chunk,
                scanned_by=self.detector.version,
                scan_score=parent_score if chunk.parent_text else _worst(suspects),
            )
            worst = sorted(found, key=lambda one: -one.score)[:_MOST_MARKED]
            yield replace(scanned, suspicious=tuple(sorted(worst, key=lambda one: one.start))) if found else scanned


def _worst(suspects: Iterable[Suspect]) -> float:
    return max((one.score for one in suspects if one.score >= HARMLESS_BELOW), default=0.0)


def _shown(text: str, unseen: Sequence[tuple[Hidden, float]]) -> Iterator[Suspect]:
    """Where hidden text stands in a passage: white on white is found like any other."""
    for one, score in unseen:
        at = text.find(one.text)
        if at >= 0:
            yield Suspect(at, at + len(one.text), score, "hidden")


def _where(blamed: Sequence[Chunk]) -> str:
    pages = sorted({chunk.page for chunk in blamed if chunk.page})
    if pages:
        return f"page {', '.join(map(str, pages[:_MOST_NAMED]))}"
    return f"passage {', '.join(str(chunk.position + 1) for chunk in blamed[:_MOST_NAMED])}"


def _hidden_where(unseen: Sequence[tuple[Hidden, float]]) -> str:
    pages = sorted({one.page for one, _ in unseen if one.page})
    return f"hidden text on page {', '.join(map(str, pages[:_MOST_NAMED]))}" if pages else "hidden text"
