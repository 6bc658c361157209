"""Quality of the answers of tenants who agreed to be measured."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row, Variable
from local.dashboards.questions import HERE, per_second, share

_TENANT = f'{HERE},tenant=~"$tenant"'


def _mean(score: str) -> tuple[str, str]:
    name = f"rag_online_{score}_score"
    whole = f"sum by (tenant, language) (increase({name}_count{{{_TENANT}}}[30m]))"
    part = f"sum by (tenant, language) (increase({name}_sum{{{_TENANT}}}[30m]))"
    return share(part, whole), "{{tenant}} {{language}}"


TENANT = Dashboard(
    "tenant",
    "sabueso: tenants",
    "Quality of the answers of tenants who agreed to be measured.",
    [
        Row(
            "What is here",
            [
                Panel(
                    "Whose numbers these are",
                    kind="text",
                    width=24,
                    height=4,
                    about="Only tenants with `evaluation` in their file are told apart: a metric store dies of labels "
                    "without bound. What one tenant uses is answered by `GET /v1/usage` (its own key) and "
                    "`GET /v1/admin/usage/<tenant>`; single requests by the traces, whose attribute `sabueso.tenant` "
                    "names it.",
                )
            ],
        ),
        Row(
            "Answers that were sampled",
            [
                Panel(
                    "How they ended",
                    [
                        (
                            f"sum by (tenant, finish) (increase(rag_online_answers_total{{{_TENANT}}}[30m]))",
                            "{{tenant}} {{finish}}",
                        )
                    ],
                    about="In half an hour.",
                    width=12,
                ),
                Panel(
                    "With which tools",
                    [
                        (
                            f"sum by (tenant, tools) (increase(rag_online_tool_use_total{{{_TENANT}}}[30m]))",
                            "{{tenant}} {{tools}}",
                        )
                    ],
                    about="In half an hour.",
                    width=12,
                ),
            ],
        ),
        Row(
            "Quality, averages of half an hour",
            [
                Panel(title, [_mean(score)], "percentunit", most=1, steps=steps)
                for title, score, steps in (
                    ("Faithfulness", "faithfulness", ((0.8, "green"),)),
                    ("Answer relevance", "answer_relevance", ((0.7, "green"),)),
                    ("Context precision", "context_precision", ((0.6, "green"),)),
                    ("Completeness", "completeness", ()),
                    ("Best passage", "retrieval", ()),
                )
            ]
            + [
                Panel(
                    "Drift",
                    [(f"max by (tenant, kind) (rag_online_drift_detected{{{_TENANT}}})", "{{tenant}} {{kind}}")],
                    "bool",
                    about="1: the last window differs from the reference by more than chance.",
                )
            ],
        ),
        Row(
            "All tenants together",
            [
                Panel(
                    "What the limits said",
                    [(per_second("sabueso_gateway_limiter_decisions_total", "decision"), "{{decision}}")],
                    "reqps",
                ),
                Panel(
                    "Requests that were not let in",
                    [(per_second("sabueso_gateway_refused_credentials_total", "reason"), "{{reason}}")],
                    "reqps",
                ),
                Panel(
                    "Until the next key expires",
                    [(f"min(sabueso_gateway_next_key_expiry_timestamp_seconds{{{HERE}}} > 0) - time()", "")],
                    "s",
                    "stat",
                ),
            ],
        ),
    ],
    [NAMESPACE, Variable("tenant", "rag_online_answers_total", "tenant", several=True)],
)
