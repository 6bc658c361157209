"""Makes the parts of online measuring from settings; what calls other services comes from outside."""

from collections.abc import Callable

from services.evaluation.judge.judge import Judge
from services.evaluation.metrics.embedder import Embedder
from services.evaluation.online.allowance import DAY, HOUR, Bounds, TrafficBudget
from services.evaluation.online.config import OnlineSettings
from services.evaluation.online.drift import Windows
from services.evaluation.online.feedback import Feedback
from services.evaluation.online.gauges import Gauges
from services.evaluation.online.langfuse import LangfuseScores
from services.evaluation.online.offers import Measuring, Offers
from services.evaluation.online.references import ReferenceStore
from services.evaluation.online.store import ScoreStore
from services.runtime.context import tenant


def traffic_budget(settings: OnlineSettings) -> TrafficBudget:
    """For the judge of live traffic: it must have one of its own, or it would eat that of the runs."""
    bounds = (
        Bounds(HOUR, settings.online_calls_per_hour, settings.online_tokens_per_hour),
        Bounds(DAY, settings.online_calls_per_day, settings.online_tokens_per_day),
    )
    return TrafficBudget(bounds, tenant, share=settings.online_tenant_share)


def offers(
    settings: OnlineSettings,
    judge: Judge | None,
    embedder: Embedder | None,
    store: ScoreStore,
    references: ReferenceStore,
    act_for: Callable[[str], None],
    feedback: Feedback | None = None,
) -> Offers:
    """The queue with all that hangs on it; needs `open` and `close`."""
    traces = None
    if settings.langfuse_url:
        secret = settings.langfuse_secret_key.get_secret_value()
        traces = LangfuseScores(settings.langfuse_url, settings.langfuse_public_key, secret)
    return Offers(
        Measuring(judge, embedder, settings.online_answer_seconds),
        store,
        act_for,
        traces=traces,
        gauges=Gauges(settings.online_most_tenants),
        windows=Windows(settings.drift_reference, settings.drift_window, settings.drift_alpha),
        references=references,
        most_waiting=settings.online_queue,
        workers=settings.online_workers,
        retention_days=settings.online_retention_days,
        feedback=feedback,
        feedback_seconds=settings.online_feedback_seconds,
    )
