"""How the ledger knows the calls to model servers that Weir itself makes, which are no users' requests.

Who makes such a call sends a span of it, as any span of Weir's own, and the server's spans are its children. So it takes the
right to send telemetry to have a call left out, and nothing that a client of the gateway can put into a request does: a
`traceparent` is only a name.
"""

INTERNAL = "weir.internal"
"""The attribute of every span of Weir's own work. The ledger leaves out such a span and what is beneath it, but for
requests of a gateway: a client may name any span as the parent of its own.
"""
