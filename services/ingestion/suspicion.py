"""Looks whether a document gives orders to a model: it would be read to one later (corpus poisoning)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from services.ingestion import metrics
from services.ingestion.cutting.chunking import Chunk
from services.ingestion.parsed import Unreadable
from services.runtime.recognition.injections.detector import Detector
from services.runtime.tenants import GuardDocuments

SCORE_FIELD, PASSAGES_FIELD = "injection_score", "injection_passages"
# So many passages are named; the rest is counted.
_MOST_NAMED = 20


@dataclass(frozen=True)
class Suspicion:
    """What was found. `warning` is for the person who sent the document; `metadata` goes into the index."""

    warning: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Screening:
    """Screens documents as their tenant wants it. `policy_of` knows a tenant by its id."""

    policy_of: Callable[[str], GuardDocuments] = lambda _: GuardDocuments()
    detector: Detector = field(default_factory=Detector)

    async def screened(self, tenant_id: str, chunks: Sequence[Chunk]) -> Suspicion:
        """What is to be said of a document. Raises Unreadable where it must not be stored."""
        policy = self.policy_of(tenant_id)
        if policy.injection == "off":
            return Suspicion()
        scores = await asyncio.to_thread(lambda: [self.detector.score(chunk.text) for chunk in chunks])
        blamed = [chunk for chunk, score in zip(chunks, scores, strict=True) if score >= policy.injection_score]
        if not blamed:
            return Suspicion()
        metrics.SUSPICIOUS_DOCUMENTS.labels(policy.injection).inc()
        where = _where(blamed)
        if policy.injection == "block":
            raise Unreadable(f"The document seems to give orders to a language model ({where}); it was not stored.")
        return Suspicion(
            f"Some of the text seems to give orders to a language model ({where}). It is stored and marked, and models "
            "are not shown those sentences unless the tenant's policy says so; check where the document comes from.",
            {
                SCORE_FIELD: f"{max(scores):.2f}",
                PASSAGES_FIELD: ",".join(str(chunk.position) for chunk in blamed[:_MOST_NAMED]),
            },
        )


def _where(blamed: Sequence[Chunk]) -> str:
    pages = sorted({chunk.page for chunk in blamed if chunk.page})
    if pages:
        return f"page {', '.join(map(str, pages[:_MOST_NAMED]))}"
    return f"passage {', '.join(str(chunk.position + 1) for chunk in blamed[:_MOST_NAMED])}"
