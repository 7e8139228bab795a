"""Reads an ExportTraceServiceRequest into arrays, in compiled code that makes no Python object per span.

The kernel reads what exporters send. Anything else (an unknown field, a malformed field, text that is not UTF-8) makes it give up on the
whole body (UNUSUAL); the protobuf parser reads that body instead, so there is one judge of what is well-formed.
https://protobuf.dev/programming-guides/encoding/
"""
