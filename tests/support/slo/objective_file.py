"""An objective as a file has it."""

OBJECTIVE = """\
apiVersion: weir/v1
kind: Objective
metadata:
  name: chat-ttft
spec:
  name: First token of chat
  measure: ttft
  threshold_ms: 300
  target: 0.95
  owner: serving
"""
