"""Closed forms of queueing theory, with which the simulator is compared."""

from math import ceil, exp, factorial, log


def erlang_c(servers: int, load: float) -> float:
    """The probability that an arrival has to wait in M/M/c; `load` is the arrival rate × the mean service time, in Erlang.

    Kleinrock, Queueing Systems I (1975), section 3.5, out of Erlang B by its recursion. `load` is below `servers`.
    """
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def mmc_wait_s(servers: int, rate_rps: float, service_s: float) -> float:
    """The mean waiting time in M/M/c (Kleinrock I, section 3.5)."""
    load = rate_rps * service_s
    return erlang_c(servers, load) * service_s / (servers - load)


def mmc_wait_quantile_s(servers: int, rate_rps: float, service_s: float, level: float) -> float:
    """The quantile of the waiting time in M/M/c: P(W > t) = C · e^(-(c/s - λ) t) (Kleinrock I, section 3.5)."""
    waits = erlang_c(servers, rate_rps * service_s)
    return 0.0 if waits <= 1 - level else log(waits / (1 - level)) / (servers / service_s - rate_rps)


def md1_wait_s(rate_rps: float, service_s: float) -> float:
    """The mean waiting time in M/D/1 (Pollaczek and Khinchine: Kleinrock I, section 5.6)."""
    load = rate_rps * service_s
    return load * service_s / (2 * (1 - load))


def md1_waits_at_most(rate_rps: float, service_s: float, time_s: float) -> float:
    """P(W ≤ t) in M/D/1 (Erlang 1909; Gross and Harris, Fundamentals of Queueing Theory, section 5.1.5)."""
    load = rate_rps * service_s
    total = 0.0
    for count in range(int(time_s / service_s) + 1):
        past = rate_rps * (count * service_s - time_s)
        total += past**count / factorial(count) * exp(-past)
    return (1 - load) * total


def md1_wait_quantile_s(rate_rps: float, service_s: float, level: float) -> float:
    """The quantile of the waiting time in M/D/1, by bisection. The sum alternates: good up to about 20 service times."""
    low, high = 0.0, service_s
    while md1_waits_at_most(rate_rps, service_s, high) < level:
        high *= 2
    for _ in range(ceil(log(high / service_s * 1e9, 2))):
        middle = (low + high) / 2
        if md1_waits_at_most(rate_rps, service_s, middle) < level:
            low = middle
        else:
            high = middle
    return high
