"""Dashboards in Grafana's JSON, from a few words a panel: titles, queries, units. Their order makes the layout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Kind = Literal["timeseries", "stat", "bargauge", "table", "text"]

_WIDTH, _SOURCE = 24, {"type": "prometheus", "uid": "${datasource}"}
_SCHEMA_VERSION = 41


@dataclass(frozen=True)
class Panel:
    """One panel. `queries` are PromQL with the legend of its series; `unit` is one of Grafana's.

    `steps`: thresholds as value and colour, from below. A text has `about` and no queries.
    """

    title: str
    queries: Sequence[tuple[str, str]] = ()
    unit: str = "short"
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 7
    about: str = ""
    steps: Sequence[tuple[float, str]] = ()
    stacked: bool = False
    most: float | None = None


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True)
class Variable:
    """Something that the reader chooses: values of `label` in `series`."""

    name: str
    series: str
    label: str
    several: bool = False


NAMESPACE = Variable("namespace", "sabueso_service_info", "namespace")


@dataclass(frozen=True)
class Dashboard:
    """A page. `name` is its file and, with `sabueso-` before it, its address."""

    name: str
    title: str
    about: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = field(default_factory=tuple[Variable, ...])

    def to_json(self) -> Json:
        """As Grafana reads it."""
        return {
            "uid": f"sabueso-{self.name}",
            "title": self.title,
            "description": self.about,
            "tags": ["sabueso"],
            "schemaVersion": _SCHEMA_VERSION,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "1m",
            "time": {"from": "now-3h", "to": "now"},
            "timezone": "browser",
            "links": [_others()],
            "annotations": {"list": []},
            "templating": {"list": [_data_source(), *map(_variable, self.variables)]},
            "panels": list(_laid_out(self.rows)),
        }


def _laid_out(rows: Sequence[Row]) -> Iterator[Json]:
    number, top = 0, 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": top, "w": _WIDTH, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left, height = top + height, 0, 0
            number += 1
            yield _panel(panel, number, {"x": left, "y": top, "w": panel.width, "h": panel.height})
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    shared: Json = {"id": number, "type": panel.kind, "title": panel.title, "gridPos": place}
    if panel.kind == "text":
        return shared | {"options": {"mode": "markdown", "content": panel.about}}
    steps = [{"color": "green", "value": None}, *({"color": colour, "value": at} for at, colour in panel.steps)]
    defaults: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}, "min": 0}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "lineWidth": 1,
            "fillOpacity": 20 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "line" if panel.steps else "off"},
        }
    return shared | {
        "description": panel.about,
        "datasource": _SOURCE,
        "targets": [_target(panel, *query, letter) for query, letter in zip(panel.queries, "ABCDEFGH", strict=False)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _options(panel.kind),
    }


def _target(panel: Panel, expression: str, legend: str, letter: str) -> Json:
    now = panel.kind != "timeseries"
    return {
        "refId": letter,
        "datasource": _SOURCE,
        "expr": expression,
        "legendFormat": legend,
        "instant": now,
        "range": not now,
        "format": "table" if panel.kind == "table" else "time_series",
    }


def _options(kind: Kind) -> Json:
    calculated = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    match kind:
        case "timeseries":
            legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
            return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
        case "stat":
            return calculated | {"colorMode": "value", "graphMode": "none"}
        case "bargauge":
            return calculated | {"displayMode": "basic", "orientation": "horizontal"}
        case _:
            return {"showHeader": True}


def _data_source() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}


def _variable(one: Variable) -> Json:
    question = f"label_values({one.series}, {one.label})"
    return {
        "name": one.name,
        "type": "query",
        "datasource": _SOURCE,
        "definition": question,
        "query": {"query": question, "refId": one.name},
        "refresh": 2,
        "sort": 1,
        "includeAll": one.several,
        "multi": one.several,
        "current": {},
    }


def _others() -> Json:
    return {
        "title": "sabueso",
        "type": "dashboards",
        "tags": ["sabueso"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
    }
