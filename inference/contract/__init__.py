"""What the control plane and the gateway have to agree on: the snapshot and its rules, the signals that gateways report, Weir's own
requests, addresses, stages, names of model servers' metrics, who may read `/metrics`, and how a line of the log looks.

It imports nothing of the rest of the gateway, and of the gateway the control plane imports nothing else.
"""
