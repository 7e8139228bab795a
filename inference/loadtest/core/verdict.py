"""Whether a run says something of the server, or of the client that measured it."""

from collections.abc import Sequence

from inference.loadtest.core.samples import CLIENT_LIMIT, SEND_LAG, Sample, rank

MAX_LAG_S = 0.005
MAX_CPU = 0.8
CPU_WINDOW_S = 5.0


def faults_of_client(samples: Sequence[Sample], beats_s: Sequence[float], cpu: float) -> list[str]:
    """Why the figures are not the server's: each reason a sentence. `beats_s` is how late the client's loop was between requests,
    `cpu` the part of a core that it used in its busiest seconds.
    """
    faults = []
    lags = sorted(lag for sample in samples if (lag := SEND_LAG(sample)) is not None)
    for what, late in (("Requests left", lags), ("Answers were looked at", sorted(beats_s))):
        if late and (p99 := late[rank(len(late), 0.99)]) > MAX_LAG_S:
            faults.append(
                f"{what} {p99 * 1000:.1f} ms late at the 99th percentile, and {MAX_LAG_S * 1000:g} ms are the most."
            )
    if cpu > MAX_CPU:
        faults.append(f"The client used {cpu:.0%} of a core, and {MAX_CPU:.0%} are the most.")
    limited = sum(sample.failure == CLIENT_LIMIT for sample in samples)
    if limited:
        faults.append(f"{limited} requests were not sent, because this machine had no more sockets or ports.")
    return faults


def busiest(marks: Sequence[tuple[float, float]]) -> float:
    """The largest part of a core in any CPU_WINDOW_S of marks of (wall clock, CPU time), s; in all of it where it is shorter."""
    shares, begin = [0.0], 0
    for end, (wall_s, cpu_s) in enumerate(marks):
        while begin + 1 < end and wall_s - marks[begin + 1][0] >= CPU_WINDOW_S:
            begin += 1
        took_s = wall_s - marks[begin][0]
        if took_s >= CPU_WINDOW_S or (end == len(marks) - 1 and len(shares) == 1 and took_s > 0):
            shares.append((cpu_s - marks[begin][1]) / took_s)
    return max(shares)
