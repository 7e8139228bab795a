"""A canary whose candidate fails, or is sound."""

from controlplane.policy.core.observation import Arm

CANARY = """\
    apiVersion: weir/v1
    kind: Canary
    metadata:
      name: try-new
    spec:
      model: chat
      baseline: old
      candidate: new
      steps: [50]
      max_requests: 1000
"""
SERVED = 1_000
FAILING = Arm(SERVED, SERVED)
SOUND = Arm(SERVED, 0, SERVED, 50, 10)
"""5 % above the 95th percentile."""
