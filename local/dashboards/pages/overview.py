"""Is it well, and if not, where to look."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row, Variable
from local.dashboards.questions import HERE, per_second, quantile, share

_CALLS = "sabueso_call_duration_seconds_count"
_CALL_SECONDS = "sabueso_call_duration_seconds"
_FAULTS = 'code=~"UNKNOWN|DEADLINE_EXCEEDED|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS"'
_REQUESTS = "sabueso_gateway_request_duration_seconds"
_API = 'route=~"/v1/.*|/mcp"'
# Alerts on what lives in other namespaces are the release's too; those of evaluation name none.
_FIRING = (
    'ALERTS{alertstate="firing",release="$release"} or ALERTS{alertstate="firing",alertname=~"RAG.*|ToolSelection.*"}'
)
_BUDGET = f"slo:error_budget:remaining30d{{{HERE}}}"
_GOOD = ((0.0, "red"), (0.25, "orange"), (0.5, "green"))

OVERVIEW = Dashboard(
    "overview",
    "sabueso: overview",
    "Is it well, and if not, where to look.",
    [
        Row(
            "Now",
            [
                Panel("Budget left, worst", [(f"min({_BUDGET})", "")], "percentunit", "stat", 4, 4, "30 days.", _GOOD),
                Panel("Requests a second", [(per_second(f"{_REQUESTS}_count", "", _API), "")], "reqps", "stat", 4, 4),
                Panel(
                    "Answers a minute",
                    [(per_second("sabueso_orchestrator_answers_total", "") + " * 60", "")],
                    "short",
                    "stat",
                    4,
                    4,
                ),
                Panel(
                    "Requests under way",
                    [(f"sum(sabueso_gateway_active_requests{{{HERE}}})", "")],
                    "short",
                    "stat",
                    4,
                    4,
                ),
                Panel(
                    "Alerts",
                    [(f"count({_FIRING}) or vector(0)", "")],
                    "short",
                    "stat",
                    4,
                    4,
                    "",
                    ((1, "orange"), (5, "red")),
                ),
                Panel(
                    "Limits without Valkey",
                    [(f"max(sabueso_gateway_limiter_store_lost{{{HERE}}})", "")],
                    "bool",
                    "stat",
                    4,
                    4,
                ),
                Panel(
                    "What fires",
                    [(f"count by (alertname, severity, slo, service) ({_FIRING})", "")],
                    kind="table",
                    width=12,
                ),
                Panel(
                    "Processes by service",
                    [(f"count by (service) (sabueso_service_info{{{HERE}}})", "{{service}}")],
                    width=12,
                ),
            ],
        ),
        Row(
            "Requests",
            [
                Panel(
                    "By status",
                    [(per_second(f"{_REQUESTS}_count", "status", _API), "{{status}}")],
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "By route", [(per_second(f"{_REQUESTS}_count", "route", _API), "{{route}}")], "reqps", stacked=True
                ),
                Panel(
                    "Failing",
                    [
                        (
                            share(
                                per_second(f"{_REQUESTS}_count", "", _API, 'status=~"5.."'),
                                per_second(f"{_REQUESTS}_count", "", _API),
                            ),
                            "5xx",
                        )
                    ],
                    "percentunit",
                ),
                Panel("p95 by route", [(quantile(0.95, _REQUESTS, "route", _API), "{{route}}")], "s"),
                Panel(
                    "First byte, p95 by route",
                    [(quantile(0.95, "sabueso_gateway_first_byte_seconds", "route", _API), "{{route}}")],
                    "s",
                ),
                Panel(
                    "Left before the end",
                    [(per_second("sabueso_gateway_hung_up_total", "route"), "{{route}}")],
                    "reqps",
                ),
            ],
        ),
        Row(
            "Services",
            [
                Panel("Calls", [(per_second(_CALLS, "service"), "{{service}}")], "reqps", stacked=True),
                Panel(
                    "Failing by their own fault",
                    [(share(per_second(_CALLS, "service", _FAULTS), per_second(_CALLS, "service")), "{{service}}")],
                    "percentunit",
                ),
                Panel("p95", [(quantile(0.95, _CALL_SECONDS, "service"), "{{service}}")], "s"),
                Panel(
                    "Memory",
                    [(f"sum by (pod) (process_resident_memory_bytes{{{HERE}}})", "{{pod}}")],
                    "bytes",
                    width=12,
                ),
                Panel("CPU", [(per_second("process_cpu_seconds_total", "pod"), "{{pod}}")], "short", width=12),
            ],
        ),
    ],
    [NAMESPACE, Variable("release", "slo:objective:ratio", "release")],
)
