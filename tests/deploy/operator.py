"""The Prometheus operator's resources as JSON schemas, as far as deploy/ uses them.

Written by hand after its public API (version 0.91, group monitoring.coreos.com/v1), not compared
field by field; a field that is not here is refused, so that a new one has to be looked up first.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
DURATION: Schema = {"type": "string", "pattern": r"^(0|([0-9]+(ms|[smhdwy]))+)$"}
LABELS: Schema = {"type": "object", "additionalProperties": TEXT}


def closed(required: str = "", **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


def array(items: Schema, least: int = 1) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


SECRET_KEY = closed("name key", name=TEXT, key=TEXT)
RELABELING = closed(
    "sourceLabels targetLabel",
    sourceLabels=array({"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"}),
    targetLabel=TEXT,
)
ENDPOINT = closed(
    "port",
    port=TEXT,
    path=TEXT,
    scheme={"enum": ["http", "https"]},
    interval=DURATION,
    honorLabels={"type": "boolean"},
    relabelings=array(RELABELING),
    basicAuth=closed("username", username=SECRET_KEY, password=SECRET_KEY),
)
SELECTOR = closed("matchLabels", matchLabels=LABELS)
RULE = {
    "oneOf": [
        closed("record expr", record=TEXT, expr=TEXT, labels=LABELS),
        closed(
            "alert expr",
            alert=TEXT,
            expr=TEXT,
            labels=LABELS,
            annotations=LABELS,
            **{"for": DURATION},
        ),
    ]
}
GROUP = closed("name rules", name={"type": "string", "minLength": 1}, rules=array(RULE))


def resource(spec: Schema) -> Schema:
    metadata = closed("name", name=TEXT, namespace=TEXT, labels=LABELS)
    api_version = {"const": "monitoring.coreos.com/v1"}
    return closed(
        "apiVersion kind metadata spec",
        apiVersion=api_version,
        kind=TEXT,
        metadata=metadata,
        spec=spec,
    )


SCHEMAS = {
    "PodMonitor": resource(
        closed(
            "selector podMetricsEndpoints", selector=SELECTOR, podMetricsEndpoints=array(ENDPOINT)
        )
    ),
    "ServiceMonitor": resource(
        closed("selector endpoints", selector=SELECTOR, endpoints=array(ENDPOINT))
    ),
    "PrometheusRule": resource(closed("groups", groups=array(GROUP))),
}
