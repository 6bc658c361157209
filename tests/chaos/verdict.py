"""Whether a fault did no more than a fault may: one object, with what is wrong in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.asking import DEADLINE_SECONDS, WORDS
from tests.chaos.offering import Ledger, Sample

RECOVERY_SECONDS = 10.0
# A busy machine may be late by so much.
_SLACK_SECONDS = 5.0
_PATIENCE_SECONDS = 30.0
# Requests that met no fault and were late all the same: the machine's doing, unless there are more of them.
_LATE_SHARE = 0.1
# Of one request that did not end well, at the very most: an answer's turns, and what was set aside.
_MOST_TOKENS = 20_000
# While something is broken: limits and shedding, a dependency that does not answer, time that is used up.
TYPED = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Fault:
    """What was broken, and from when to when, by `time.monotonic`. It ends when the process serves, or all flows.

    Breaking and mending take their time, too: from `broken` to `mending` nothing got through for certain.
    """

    service: str
    how: str
    began: float
    ended: float
    broken: float
    mending: float


@dataclass(frozen=True)
class Verdict:
    """`recovery_seconds`: from the fault's end to the last request that was not whole."""

    fault: Fault
    recovery_seconds: float
    broken: Sequence[str]
    seen: Mapping[str, str] = field(default_factory=dict[str, str])
    # Requests that met the fault and got less than on another day, a busy machine's lateness excepted.
    hurt: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [f"{self.fault.service}, {self.fault.how}: {'; '.join(self.broken) or 'as it should be'}"]
        lines += [f"  {kind}: {what}" for kind, what in self.seen.items()]
        return "\n".join(lines)


def judge(fault: Fault, samples: Sequence[Sample], needs: Mapping[str, frozenset[str]]) -> Verdict:
    """The verdict over all that was asked around a fault. `needs`: by kind, as the kinds say."""
    recovery = _recovery_seconds(fault, samples)
    broken: list[str] = []
    if recovery > RECOVERY_SECONDS:
        broken.append(f"whole again only {recovery:.1f} s after the fault's end")
    until = fault.ended + max(0.0, recovery)
    late = [sample for sample in samples if sample.is_late]
    for sample in samples:
        broken += _wrong_always(sample, fault)
        # Whoever was under way when it broke met the fault too.
        if sample.ended < fault.began or sample.sent > until:
            excused = sample.is_late and len(late) <= _LATE_SHARE * len(samples)
            broken += [f"{sample} (without any fault)"] if not (sample.is_whole or excused) else []
        else:
            broken += _wrong_meanwhile(sample, fault, needs[sample.kind])
    hurt = [str(one) for one in samples if one.ended >= fault.began and not (one.is_whole or one.is_late)]
    return Verdict(fault, max(0.0, recovery), list(dict.fromkeys(broken)), _seen(fault, samples, until), hurt)


def _wrong_always(sample: Sample, fault: Fault) -> list[str]:
    found: list[str] = []
    for tenant, word in WORDS.items():
        if tenant != sample.tenant and word in sample.text:
            found.append(f"{sample}: it tells the word of tenant {tenant}")
    took = sample.ended - sample.sent
    is_agents = sample.finish or sample.kind.startswith(("documents", "sql", "web"))
    most = (DEADLINE_SECONDS if is_agents else _PATIENCE_SECONDS) + _SLACK_SECONDS
    if fault.service == "gateway":  # it cannot look at a clock while it is stopped
        most += max(0.0, fault.ended - fault.began)
    if took > most:
        found.append(f"{sample}: hung, beyond its deadline")
    if sample.untrue and not sample.degraded and sample.finish in ("", "answered", "refused"):
        found.append(f"{sample}: not true, and no word of what was missing: {sample.text[:120]}")
    return found


def _wrong_meanwhile(sample: Sample, fault: Fault, needs: frozenset[str]) -> list[str]:
    found: list[str] = []
    if sample.problem and not sample.code and fault.service != "gateway":
        found.append(f"{sample}: an error without a code")
    if sample.status not in (0, 200, 202) and sample.status not in TYPED:
        found.append(f"{sample}: no error for a lost dependency")
    if sample.code == "internal_error":
        found.append(f"{sample}: a bug, by its own word")
    lasted = fault.broken + 0.5 < sample.sent and sample.ended < fault.mending
    if lasted and fault.how in ("cut", "silence", "pause") and fault.service in needs and sample.is_whole:
        found.append(f"{sample}: made without {fault.service}, and says nothing")
    return found


def _recovery_seconds(fault: Fault, samples: Sequence[Sample]) -> float:
    """When the last request was sent that was not whole."""
    bad = [sample.sent for sample in samples if not sample.is_whole and sample.ended > fault.began]
    return max(bad, default=fault.ended) - fault.ended


def _seen(fault: Fault, samples: Sequence[Sample], until: float) -> dict[str, str]:
    """By kind, what came of the requests that met the fault."""
    table: dict[str, dict[str, int]] = {}
    for sample in samples:
        if sample.ended < fault.began or sample.sent > until:
            continue
        what = sample.code or (sample.problem and "no answer") or ""
        what = what or ("without " + ", ".join(sorted(set(sample.degraded))) if sample.degraded else "")
        what = what or ("whole" if sample.is_whole else sample.finish or "untrue")
        counts = table.setdefault(sample.kind, {})
        counts[what] = counts.get(what, 0) + 1
    return {
        kind: ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
        for kind, counts in sorted(table.items())
    }


def wrong_tokens(samples: Sequence[Sample], charged: Mapping[str, int], lost: Fault | None = None) -> list[str]:
    """What was answered is charged, and nothing else where all ended well.

    `lost`: a fault of the store that counts. Who met it may have been counted without hearing of it; what such a
    request set aside stays charged.
    """
    found: list[str] = []
    for tenant, count in charged.items():
        own = [sample for sample in samples if sample.tenant == tenant]
        acknowledged = sum(sample.tokens for sample in own)
        met = [one for one in own if lost and one.ended > lost.began and one.sent < lost.ended + _SLACK_SECONDS]
        unsure = len({id(one) for one in [*met, *(one for one in own if not one.is_whole)]})
        if count < acknowledged:
            found.append(f"{tenant} was told of {acknowledged} tokens, and charged {count}")
        elif count > acknowledged + unsure * _MOST_TOKENS:
            found.append(
                f"{tenant} was told of {acknowledged} tokens and charged {count}; {unsure} requests are unsure"
            )
    return found


def lost_documents(ledger: Ledger, states: Mapping[str, str]) -> list[str]:
    """What was acknowledged and is not there. `states`: by document, "found" or what else came of it."""
    return [
        f"document {document_id} of {tenant} was acknowledged, and is {states[document_id]}"
        for document_id, (tenant, _) in ledger.documents.items()
        if states[document_id] != "found"
    ]
