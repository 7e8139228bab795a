"""The stages of a request's time, as spans name them (`weir.stage`) and the ledger counts them."""

STAGES = ("network", "gateway", "tokenizer", "cache", "queue", "model", "egress")
"""`unattributed` is not one of them: it is the time that no span explains."""
