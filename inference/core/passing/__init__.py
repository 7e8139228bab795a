"""Requests and answers that are handed on as they came: what the gateway reads of them, and the few places that it changes.

`members` finds and replaces members of a JSON object and leaves every other byte alone, `passed` is a request, `canonical`
what of it is hashed, `answers` reads an answer while it passes, and `blocks` cuts a stream into its events.
"""
