"""OpenSLO documents as a team writes them."""

SLO = """# Promised to premium customers.
apiVersion: openslo/v1
kind: SLO
metadata:
  name: {name}
  displayName: Premium chat, first token
  labels: {{env: prod}}
  annotations:
    weir.slo/owner: serving
    weir.slo/runbook: https://runbooks.example.com/ttft
    weir.slo/windows: page 1h/5m 0.02, ticket 3d/6h 0.1
    example.com/dashboard: "17"
spec:
  service: chat-large
  indicator:
    metadata:
      name: {name}
    spec:
      thresholdMetric:
        metricSource:
          type: weir
          spec: {{measure: ttft, unit: ms, scope: {{model: chat-large, tier: premium}}}}
  timeWindow:
    - duration: 30d
      isRolling: true
  budgetingMethod: Occurrences
  objectives:
    - op: lte
      value: {value}
      target: 0.95
"""
FOREIGN = """apiVersion: openslo/v1
kind: SLO
metadata: {name: web}
spec:
  service: web
  indicatorRef: web
  budgetingMethod: Occurrences
  objectives: [{target: 0.99}]
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: web}
spec:
  ratioMetric:
    counter: true
    good: {metricSource: {type: Prometheus, spec: {query: good}}}
    total: {metricSource: {type: Prometheus, spec: {query: all}}}
"""


def slo(name: str = "chat-ttft", value: float = 100) -> str:
    return SLO.format(name=name, value=value)
