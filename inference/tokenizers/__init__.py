"""Counts prompts' tokens, and makes the text of a chat where a server does not. What a model's files do happens in a process
of its own.
"""
