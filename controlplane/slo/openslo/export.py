"""Exports objectives as OpenSLO, together with all other applied documents."""

from controlplane.core.documents.reading import Document, read
from controlplane.core.documents.writing import join_documents
from controlplane.slo.models import StoredObjective
from controlplane.slo.openslo.apply import known_documents
from controlplane.slo.openslo.core.exported import exported
from controlplane.slo.openslo.core.located import Context
from controlplane.slo.openslo.core.references import index
from controlplane.slo.openslo.models import AppliedDocument


def export_one(row: StoredObjective) -> str:
    """Its document: the applied text, if nothing has changed since."""
    source = AppliedDocument.objects.filter(slug=row.slug).first()
    return exported(row.to_objective(), _document(source), Context(index(known_documents())))


def export_all() -> str:
    """All documents in one text: first those without an objective, then objectives by slug."""
    context = Context(index(known_documents()))
    others = [row.text for row in AppliedDocument.objects.filter(slug="")]
    sources = {row.slug: row for row in AppliedDocument.objects.exclude(slug="")}
    rows = StoredObjective.objects.select_related("owner")
    return join_documents(
        [*others, *(exported(row.to_objective(), _document(sources.get(row.slug)), context) for row in rows)]
    )


def _document(row: AppliedDocument | None) -> Document | None:
    documents = read(row.text, row.source)[0] if row else []
    return documents[0] if documents else None
