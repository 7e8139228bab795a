"""Finds where the spans of a body lie, and the resource and scope of each."""

from controlplane.telemetry.ingest.compiled import compiled

from . import columns as col
from .columns import Bytes, Numbers
from .fields import extent


@compiled
def locate(data: Bytes, places: Numbers, groups: Numbers) -> tuple[int, int]:
    """Write where the spans lie, and their groups of resource and scope. Returns how many of each, or UNUSUAL (also without room)."""
    spans, used = 0, 0
    at, end = 0, len(data)
    while at < end:
        if data[at] != 0x0A:
            return col.UNUSUAL, 0
        at, resource_end = extent(data, at + 1, end)
        if at < 0:
            return col.UNUSUAL, 0
        first, resource, resource_stop = used, -1, -1
        while at < resource_end:
            tag = data[at]
            at, stop = extent(data, at + 1, resource_end)
            if at < 0:
                return col.UNUSUAL, 0
            if tag == 0x0A and resource < 0:
                resource, resource_stop = at, stop
            elif tag == 0x12:
                if used >= groups.shape[0]:
                    return col.UNUSUAL, 0
                group, used = used, used + 1
                groups[group, col.SCOPE_AT] = groups[group, col.SCOPE_END] = -1
                inner = at
                while inner < stop:
                    tag = data[inner]
                    inner, span_end = extent(data, inner + 1, stop)
                    if inner < 0:
                        return col.UNUSUAL, 0
                    if tag == 0x12:
                        if spans >= places.shape[1]:
                            return col.UNUSUAL, 0
                        places[col.PLACE_AT, spans] = inner
                        places[col.PLACE_END, spans] = span_end
                        places[col.PLACE_GROUP, spans] = group
                        spans += 1
                    elif tag == 0x0A and groups[group, col.SCOPE_AT] < 0:
                        groups[group, col.SCOPE_AT], groups[group, col.SCOPE_END] = inner, span_end
                    elif tag != 0x1A:  # the schema's URL
                        return col.UNUSUAL, 0
                    inner = span_end
            elif tag != 0x1A:
                return col.UNUSUAL, 0
            at = stop
        for group in range(first, used):
            groups[group, col.RESOURCE_AT], groups[group, col.RESOURCE_END] = resource, resource_stop
    return spans, used
