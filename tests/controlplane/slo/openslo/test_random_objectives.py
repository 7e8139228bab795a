"""Importing an exported objective gives the same objective."""

from dataclasses import replace

import yaml
from hypothesis import HealthCheck, given, settings

from controlplane.core.documents.reading import read
from controlplane.slo.core.objective import Objective
from controlplane.slo.openslo.core.exported import exported
from controlplane.slo.openslo.core.imported import objective_of
from controlplane.slo.openslo.core.located import Context
from controlplane.slo.openslo.core.schema import faults_of
from tests.support.slo.openslo_objectives import objectives
from tests.support.soak import sized

many = settings(max_examples=sized(24, soak=320), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(objectives())
def test_an_exported_objective_comes_back_the_same_and_other_readers_see_the_same(objective: Objective) -> None:
    text = exported(objective)
    [document], faults = read(text)
    assert [*faults, *faults_of("document", document.node)] == []
    assert objective_of(document, Context()) == objective
    assert yaml.safe_load(text) == document.plain


@many
@given(objectives(), objectives())
def test_a_changed_objective_comes_back_from_the_document_it_once_came_from(old: Objective, new: Objective) -> None:
    new = replace(new, slug=old.slug)
    [source], _ = read("# by hand\n" + exported(old))
    [document], faults = read(exported(new, source))
    assert [*faults, *faults_of("document", document.node)] == []
    assert objective_of(document, Context()) == new
    assert (document.text == source.text) == (new == old)
