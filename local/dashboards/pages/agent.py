"""How questions are answered."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row
from local.dashboards.questions import per_second, quantile, quantiles, share

_CALL_SECONDS = "sabueso_call_duration_seconds"

AGENT = Dashboard(
    "agent",
    "sabueso: agent",
    "How questions are answered, with which tools, and how long it takes.",
    [
        Row(
            "Answers",
            [
                Panel(
                    "How they ended",
                    [(per_second("sabueso_orchestrator_answers_total", "finish") + " * 60", "{{finish}}")],
                    "short",
                    about="A minute.",
                    stacked=True,
                ),
                Panel(
                    "By strategy",
                    [(per_second("sabueso_orchestrator_answers_total", "strategy") + " * 60", "{{strategy}}")],
                    "short",
                    about="A minute.",
                    stacked=True,
                ),
                Panel(
                    "p95 by scenario",
                    [(quantile(0.95, "sabueso_orchestrator_answer_seconds", "scenario"), "{{scenario}}")],
                    "s",
                ),
                Panel(
                    "p50 by scenario",
                    [(quantile(0.5, "sabueso_orchestrator_answer_seconds", "scenario"), "{{scenario}}")],
                    "s",
                ),
                Panel("Neither model, tools nor cache", quantiles("sabueso_orchestrator_overhead_seconds"), "s"),
                Panel(
                    "What sources do not bear out",
                    [(per_second("sabueso_orchestrator_findings_total", "kind"), "{{kind}}")],
                    "short",
                    about="Citations and numbers, a second.",
                ),
            ],
        ),
        Row(
            "Tools",
            [
                Panel(
                    "Calls",
                    [(per_second("sabueso_orchestrator_tool_calls_total", "tool"), "{{tool}}")],
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Failing",
                    [
                        (
                            share(
                                per_second("sabueso_orchestrator_tool_calls_total", "tool", 'status="error"'),
                                per_second("sabueso_orchestrator_tool_calls_total", "tool", 'status=~"ok|error"'),
                            ),
                            "{{tool}}",
                        )
                    ],
                    "percentunit",
                ),
                Panel(
                    "Cache",
                    [(per_second("sabueso_tool_cache_lookups_total", "result"), "{{result}}")],
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Questions begun as before",
                    [(per_second("sabueso_orchestrator_first_calls_total", "outcome"), "{{outcome}}")],
                    "reqps",
                    about="Without a turn of the model: `recalled`. `kept` serve the next who ask.",
                ),
                Panel(
                    "Valid calls of the model",
                    [
                        (
                            share(
                                per_second("sabueso_orchestrator_model_calls_total", "model", 'valid="true"'),
                                per_second("sabueso_orchestrator_model_calls_total", "model"),
                            ),
                            "{{model}}",
                        )
                    ],
                    "percentunit",
                    most=1,
                ),
                Panel(
                    "sql_tool, p95 by method",
                    [(quantile(0.95, _CALL_SECONDS, "method", 'service="sql_tool"'), "{{method}}")],
                    "s",
                ),
                Panel(
                    "Search providers",
                    [
                        (
                            per_second("sabueso_web_tool_provider_calls_total", "provider, outcome"),
                            "{{provider}} {{outcome}}",
                        )
                    ],
                    "reqps",
                ),
            ],
        ),
        Row(
            "Router and safety",
            [
                Panel(
                    "What the router said",
                    [(per_second("sabueso_orchestrator_routes_total", "outcome"), "{{outcome}}")],
                    "reqps",
                ),
                Panel("Time of a route", quantiles("sabueso_orchestrator_route_seconds"), "s"),
                Panel(
                    "Text that gives orders",
                    [
                        (
                            per_second("sabueso_orchestrator_suspicions_total", "tool, action") + " * 60",
                            "{{tool}} {{action}}",
                        )
                    ],
                    "short",
                    about="A minute.",
                ),
                Panel(
                    "Links taken out",
                    [(per_second("sabueso_orchestrator_removed_links_total", "kind"), "{{kind}}")],
                    "short",
                ),
                Panel(
                    "Foreign tools refused",
                    [(per_second("sabueso_orchestrator_external_tools_refused_total", "reason"), "{{reason}}")],
                    "short",
                ),
                Panel(
                    "What the guard found",
                    [(per_second("sabueso_gateway_guard_findings_total", "kind, action"), "{{kind}} {{action}}")],
                    "short",
                ),
            ],
        ),
    ],
    [NAMESPACE],
)
