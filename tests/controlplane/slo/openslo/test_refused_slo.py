"""Every way of spoiling a published SLO's metadata, service or indicator is refused at its line, with what to do."""

from pathlib import Path

import pytest

from tests.support.slo.spoilt_examples import Spoilt, assert_refused

SPOILT: list[Spoilt] = [
    ("slos.yaml", "openslo/v1", "openslo/v2", (1, 15), "apiVersion='openslo/v2' is not known: did you mean openslo/v1"),
    ("slos.yaml", "apiVersion: openslo/v1\n  ", "", (1, 3), "apiVersion is missing: write openslo/v1"),
    ("slos.yaml", "kind: SLO", "kind: Slo", (2, 9), "kind='Slo' is not known: use DataSource, SLO, SLI, AlertPolicy,"),
    (
        "slos.yaml",
        "kind: SLO\n",
        "metadat: {}\n",
        (1, 3),
        "kind is missing: use one of DataSource, SLO, SLI, AlertPolicy,",
    ),
    (
        "slos.yaml",
        "name: web-availability",
        "name: Web_Availability",
        (4, 11),
        "metadata.name='Web_Availability' is not a name: use at most 63 of a-z,",
    ),
    (
        "slos.yaml",
        "name: web-availability",
        "nam: web-availability",
        (4, 5),
        "metadata.nam is not a field: did you mean name",
    ),
    (
        "slos.yaml",
        "name: web-availability",
        "name: 12",
        (4, 11),
        "metadata.name=12 must be text: put it in quotes, '12'",
    ),
    (
        "slos.yaml",
        "name: web-availability",
        "name: " + "x" * 64,
        (4, 11),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… is no",
    ),
    (
        "slos.yaml",
        "SLO for web availability",
        "x" * 64,
        (5, 18),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… has 64",
    ),
    ("slos.yaml", "env:\n", "-env:\n", (7, 7), "metadata.labels has the key '-env': use at most 63 letters, digits,"),
    ("slos.yaml", "- prod", "- 1", (8, 11), "metadata.labels.env[0]=1 must be text: put it in quotes, '1'"),
    (
        "slos.yaml",
        "labels:",
        "annotations:",
        (8, 9),
        "metadata.annotations.env=a list of 1 must be text: write one line of",
    ),
    (
        "slos.yaml",
        "X% of search requests are successful",
        "x" * 1051,
        (13, 18),
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… has 1051",
    ),
    ("slos.yaml", "service: web", "service:", (14, 5), "spec.service is empty: name the service it belongs to"),
    ("slos.yaml", "    service: web\n", "", (13, 5), "spec.service is missing: name the service it belongs to"),
    ("slos.yaml", "service: web", "services: web", (14, 5), "spec.services is not a field: did you mean service"),
    (
        "slos.yaml",
        "    indicator:",
        "    indicatorRef: other\n    indicator:",
        (15, 5),
        "spec has indicator and indicatorRef: keep one",
    ),
    (
        "slos.yaml",
        "    indicator:\n      metadata",
        "    indicators:\n      metadata",
        (15, 5),
        "spec.indicators is not a field: did you mean indicator",
    ),
    (
        "slos.yaml",
        "web-successful-requests-ratio",
        "web successful",
        (17, 15),
        "spec.indicator.metadata.name='web successful' is not a name: use at most",
    ),
    (
        "slos.yaml",
        "ratioMetric:",
        "rateMetric:",
        (19, 9),
        "spec.indicator.spec.rateMetric is not a field: did you mean",
    ),
    (
        "slos.yaml",
        "counter: true",
        "counter: 'true'",
        (20, 20),
        "spec.indicator.spec.ratioMetric.counter='true' must be true or false,",
    ),
    (
        "slos.yaml",
        "          good:\n",
        "          fine:\n",
        (21, 11),
        "spec.indicator.spec.ratioMetric.fine is not a field: use counter,",
    ),
    (
        "slos.yaml",
        "          total:\n",
        "          bad:\n",
        (20, 11),
        "spec.indicator.spec.ratioMetric has none of total, raw: give one",
    ),
    (
        "slos.yaml",
        "          good:\n",
        "          rawType: success\n          raw:\n",
        (20, 11),
        "spec.indicator.spec.ratioMetric has none of good, bad: give one",
    ),
    (
        "slos.yaml",
        'type: Prometheus\n              spec:\n                query: sum(http_requests{k8s_cluster="prod",component="web",code',
        'type: Prometheus\n              spek:\n                query: sum(http_requests{k8s_cluster="prod",component="web",code',
        (24, 15),
        "spec.indicator.spec.ratioMetric.good.metricSource.spek is not a",
    ),
    (
        "slos.yaml",
        "kind: SLO",
        "kind: SLO\n  status: ok",
        (3, 3),
        "status is not a field: use apiVersion, kind, metadata, spec",
    ),
    (
        "slos.yaml",
        "  spec:\n    description",
        "  spec: text\n  description",
        (14, 12),
        "not YAML: mapping values are not allowed in this context",
    ),
    (
        "slos.yaml",
        "      env:\n        - prod",
        "      env:\n       - [prod",
        (9, 11),
        "not YAML: did not find expected ',' or ']'",
    ),
    (
        "slos.yaml",
        "timeSliceWindow: 1m",
        "timeSliceWindow: *minute",
        (43, 26),
        "alias *minute has no anchor before it: write &minute at the value it refers to",
    ),
    ("slos.yaml", "service: web", "service: !env WEB", (14, 14), "tag '!env' is not known: leave it out"),
]


@pytest.mark.parametrize(("name", "old", "new", "place", "words"), SPOILT)
def test_a_spoilt_slo_is_refused_at_its_line(
    shared_dir: Path, name: str, old: str, new: str, place: tuple[int, int], words: str
) -> None:
    assert_refused(shared_dir, name, old, new, place, words)
