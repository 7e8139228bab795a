"""No field of the language promises what nothing does."""

import re
from itertools import chain

import msgspec

from controlplane.policy.core import spec
from deploy.local.process import ROOT


def test_every_field_has_a_reader() -> None:
    files = chain((ROOT / "controlplane").rglob("*.py"), (ROOT / "templates").rglob("*.html"))
    read = {
        name for file in files if file.name != "spec.py" for name in re.findall(r"\.([a-z]\w*)\b", file.read_text())
    }
    kinds = [each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, spec.Spec)]
    fields = {f"{kind.__name__}.{field.name}" for kind in kinds for field in msgspec.structs.fields(kind)}
    unread = {name for name in fields if name.partition(".")[2] not in read}
    assert {
        name for name in unread if not name.endswith(".api_version")
    } == set()  # `document.py` checks it by its text
