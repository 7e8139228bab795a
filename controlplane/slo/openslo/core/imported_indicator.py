"""Reads the indicator of an SLO, and the scope of its requests, from its metric sources."""

from collections.abc import Mapping
from decimal import Decimal

from controlplane.core.documents.problem import shown
from controlplane.slo.core.sli import MEASURES, Availability, Cost, Histogram, Indicator, Latency
from controlplane.slo.openslo.core import weir
from controlplane.slo.openslo.core.located import Context, Located, check_part, labels_of, part_of
from controlplane.slo.openslo.core.schema import suggest
from inference.contract.stages import STAGES

LATENCIES = (*MEASURES, *STAGES)


def indicator_of(spec: Located, target: Located, context: Context) -> tuple[Indicator, dict[str, str]]:
    sli = spec.under("indicator", "spec") or _referred(spec, context)
    if metric := sli.under("thresholdMetric"):
        source = _weir_source(metric, context)
        return _threshold(source, spec, target)
    ratio = part_of(sli, "ratioMetric")
    parts = {name: part for name in ("good", "bad", "total", "raw") if (part := ratio.under(name))}
    sources = {name: _weir_source(part, context) for name, part in parts.items()}
    return _availability(sources)


def _referred(spec: Located, context: Context) -> Located:
    reference = part_of(spec, "indicatorRef")
    sli = context.find("SLI", reference.node.text)
    if sli is None:
        message = f"{reference.path}={reference.node.plain!r} is not a known SLI: add it, or correct the name"
        raise reference.refuse(message, "unknown-reference")
    return part_of(Located(sli.node, "", sli.source), "spec")


def _weir_source(metric: Located, context: Context) -> Located:
    """The `spec` of a metric source of type weir. SLOs on other sources are kept."""
    source = part_of(metric, "metricSource")
    kind, reference = source.node.at("type"), source.node.at("metricSourceRef")
    name = kind.text if kind else ""
    if not name and reference:
        data_source = context.find("DataSource", reference.text)
        known = data_source.node.at("spec", "type") if data_source else None
        name = known.text if known else ""
    if name.lower() != weir.SOURCE:
        what = f"type {name!r}" if name else f"metricSourceRef {reference.text!r}" if reference else "no type"
        message = f"metric source of {what} is kept and not evaluated: Weir measures those of type weir itself"
        mark = source.node.of_key("type") if kind else source.node.mark
        raise source.refuse(message, "not-evaluated", kept=True, mark=mark)
    return part_of(source, "spec")


def _measure(source: Located, *known: str) -> str:
    measure = source.under("measure")
    if measure is None:
        raise source.refuse(f"{source.path}.measure is missing: use one of {', '.join(known)}", "required")
    if measure.node.text not in known:
        message = f"{measure.path}={shown(measure.node.plain)} is not known: {suggest(measure.node.text, known)}"
        raise measure.refuse(message, "one-of")
    return measure.node.text


def _threshold(source: Located, spec: Located, target: Located) -> tuple[Indicator, dict[str, str]]:
    measure = _measure(source, *LATENCIES, "cost", "histogram")
    check_part(source, measure if measure in ("cost", "histogram") else "latency")
    check_part(spec, "thresholdObjectives")
    operator, value = part_of(target, "op"), part_of(target, "value")
    if operator.node.text != "lte":
        message = f"{operator.path}={operator.node.plain!r} does not fit {measure}: what is at most the value is good, write op: lte"
        raise operator.refuse(message, "operator")
    number, given = Decimal(str(value.node.value)), source.node
    scope = given.at("scope")
    unit = given.at("unit")
    try:
        if measure == "cost":
            indicator: Indicator = Cost(float(number))
        elif measure == "histogram":
            metric = given.at("metric")
            indicator = Histogram(metric.text if metric else "", float(number), labels_of(given.at("labels")))
        else:
            definition = given.at("ttft_definition")
            in_ms = float(number * 1000) if unit and unit.text == "s" else float(number)
            indicator = Latency(measure, in_ms, **({"ttft_definition": definition.text} if definition else {}))
    except ValueError as error:
        raise value.refuse(f"{value.path}={shown(value.node.plain)}: {error}", "range") from None
    return indicator, labels_of(scope)


def _availability(sources: Mapping[str, Located]) -> tuple[Indicator, dict[str, str]]:
    for name, source in sources.items():
        _measure(source, "availability")
        if name == "raw":
            raise source.refuse("Weir counts requests and has no precomputed ratios: give good and total", "raw")
        count = source.under("count")
        if count is None or count.node.text != name:
            raise (count or source).refuse(f"{source.path}.count is not {name}: write count: {name}", "one-of")
        check_part(source, "availability")
    scopes = {name: labels_of(source.node.at("scope")) for name, source in sources.items()}
    strict = {
        (given := source.node.at("client_errors")) is not None and given.text == "bad" for source in sources.values()
    }
    for field, differs in {
        "scope": len({tuple(sorted(scope.items())) for scope in scopes.values()}) > 1,
        "client_errors": len(strict) > 1,
    }.items():
        if differs:
            source = sources["total"]
            message = f"{source.path}.{field} differs from that of the events it is the total of: give both the same"
            raise source.refuse(message, "scope")
    return Availability(strict.pop()), next(iter(scopes.values()))
