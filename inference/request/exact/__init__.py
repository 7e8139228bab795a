"""The exact cache: answers to requests that are the same (docs/gateway.md). `cache` keeps them in Redis, `write_back` hands them to it
after the requests have them.
"""
