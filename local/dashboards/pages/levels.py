"""Budgets and burn rates of the service levels."""

from local.dashboards.panels import NAMESPACE, Dashboard, Panel, Row
from local.dashboards.questions import HERE

_BUDGET = f"slo:error_budget:remaining30d{{{HERE}}}"
_GOOD = ((0.0, "red"), (0.25, "orange"), (0.5, "green"))

SLO = Dashboard(
    "slo",
    "sabueso: service levels",
    "Budgets and burn rates; docs/slo.md says what each level counts.",
    [
        Row(
            "Budgets of 30 days",
            [
                Panel("Left", [(_BUDGET, "{{slo}}")], "percentunit", "bargauge", 12, 10, "", _GOOD, most=1),
                Panel(
                    "Bad requests in the last day",
                    [(f"slo:bad_requests:ratio_rate1d{{{HERE}}}", "{{slo}}")],
                    "percentunit",
                    "bargauge",
                    12,
                    10,
                ),
            ],
        ),
        Row(
            "Burn rates",
            [
                Panel(
                    f"Over {window}",
                    [
                        (
                            f"slo:bad_requests:ratio_rate{window}{{{HERE}}} / (1 - slo:objective:ratio{{{HERE}}})",
                            "{{slo}}",
                        )
                    ],
                    "none",
                    width=12,
                    about=f"1 spends the budget in 30 days. {about}",
                    steps=((limit, "red"),),
                )
                for window, limit, about in (
                    ("1h", 14.4, "Above 14.4 somebody is paged."),
                    ("6h", 6, "Above 6 somebody is paged."),
                    ("1d", 3, "Above 3 there is a ticket."),
                    ("3d", 1, "Above 1 there is a ticket."),
                )
            ],
        ),
        Row(
            "What is counted",
            [
                Panel("Requests", [(f"slo:requests:rate5m{{{HERE}}}", "{{slo}}")], "reqps", width=12),
                Panel("Bad ones", [(f"slo:bad_requests:rate5m{{{HERE}}}", "{{slo}}")], "reqps", width=12),
            ],
        ),
    ],
    [NAMESPACE],
)
