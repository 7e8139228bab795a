"""Reads CPU and memory of the child processes from /proc, for the receiver's metrics: children serve no metrics themselves."""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage:
    """A collector for prometheus_client. `children` gives names and process ids, None for a child that does not run."""

    def __init__(self, children: Callable[[], Iterable[tuple[str, int | None]]]) -> None:
        self._children = children

    def collect(self) -> Iterator[Metric]:
        cpu = CounterMetricFamily("weir_child_cpu_seconds", "CPU time of pipelines and store.", labels=["child"])
        memory = GaugeMetricFamily("weir_child_resident_bytes", "Memory of pipelines and store.", labels=["child"])
        for name, pid in self._children():
            if pid is not None and (used := usage(pid)):
                cpu.add_metric([name], used[0])
                memory.add_metric([name], used[1])
        yield from (cpu, memory)


def usage(pid: int) -> tuple[float, int] | None:
    """CPU seconds and resident bytes of a process. None where it has ended, or there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
