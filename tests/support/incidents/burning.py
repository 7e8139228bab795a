"""An objective that the test data burns."""

from dataclasses import replace
from datetime import UTC, datetime

from controlplane.slo.core.alert import Alert
from controlplane.slo.core.objective import Objective
from controlplane.slo.core.sli import Latency
from tests.support.incidents.alerts import TTFT, alert
from tests.support.web.served import Filled

SLOW = replace(TTFT, indicator=Latency("ttft", 1500), scope={"model": "chat-large"})


def at_the_end(filled: Filled, objective: Objective) -> Alert:
    return alert(objective, at=datetime.fromtimestamp(filled.to_ns // 10**9, UTC))
