"""The model servers: `port` is what the gateway wants of them, each kind has a folder of its own, and `fleet` keeps the pools
and replicas.
"""
