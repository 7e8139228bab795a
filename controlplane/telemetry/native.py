"""What runs for every span, as machine code where this machine could make it: the same source through mypyc, more than twice as fast.

`python -m controlplane.telemetry.native` builds it (`make setup` does; it takes a C compiler and half a minute), into the virtual
environment, under the digest of the sources: what was built of others is not used. Where there is none, the source is interpreted.
It has the kernel that reads OTLP compiled too (`otlp.compiled`), so that the first start need not wait for that.
"""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[2]
_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
_TELEMETRY = Path("controlplane/telemetry")
_LEDGER = (
    "attempts",
    "attributes",
    "close",
    "attribute_index",
    "critical_path",
    "dimensions",
    "own_time",
    "reading",
    "requests",
    "row",
    "tree",
)
_SETUP = """
from mypyc.build import mypycify
from setuptools import setup

setup(name="weir-native", ext_modules=mypycify(["--config-file", "mypy.ini", *{sources!r}], opt_level="3", debug_level="0"))
"""


def sources() -> list[Path]:
    """What is compiled, relative to the repository's root: pure modules alone."""
    adapters = sorted((_ROOT / _TELEMETRY / "ledger" / "adapters").glob("*.py"))
    return [
        _TELEMETRY / "core" / "spans.py",
        *(_TELEMETRY / "ledger" / f"{name}.py" for name in _LEDGER),
        *(path.relative_to(_ROOT) for path in adapters),
        _TELEMETRY / "ingest" / "otlp" / "pairs.py",
        _TELEMETRY / "ingest" / "otlp" / "values.py",
    ]


def folder() -> Path:
    """Where it lies, or would, for these sources and this Python."""
    digest = hashlib.sha256(_SUFFIX.encode())
    for source in sources():
        digest.update(str(source).encode() + (_ROOT / source).read_bytes())
    return Path(sys.prefix) / "share" / "weir" / f"native-{digest.hexdigest()[:16]}"


def use() -> bool:
    """Import from here on what was built instead of its source; False where nothing was. Before any of it is imported."""
    built = folder()
    if not built.is_dir():
        return False
    sys.meta_path.insert(0, _Finder(built))
    return True


class _Finder(MetaPathFinder):
    def __init__(self, built: Path) -> None:
        self._files: dict[str, Path] = {}
        for path in built.rglob(f"*{_SUFFIX}"):
            name = ".".join(path.relative_to(built).parts).removesuffix(_SUFFIX)
            self._files[name.removesuffix(".__init__")] = path

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = self._files.get(fullname)
        if found is None:
            return None
        package = [str(_ROOT.joinpath(*fullname.split(".")))] if found.name.startswith("__init__.") else None
        return spec_from_file_location(
            fullname, found, loader=ExtensionFileLoader(fullname, str(found)), submodule_search_locations=package
        )


def build() -> None:
    """Raises OSError or subprocess.CalledProcessError where it cannot be built here."""
    built = folder()
    if built.is_dir():
        return
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        work = Path(scratch)
        for source in sources():
            for package in [parent for parent in source.parents if parent.name]:
                (work / package).mkdir(parents=True, exist_ok=True)
                (work / package / "__init__.py").touch()
            shutil.copy(_ROOT / source, work / source)
        (work / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
        (work / "setup.py").write_text(_SETUP.format(sources=[str(source) for source in sources()]))
        command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "made", "--parallel", "2"]
        subprocess.run(command, cwd=work, check=True, capture_output=True, text=True)  # noqa: S603
        for old in built.parent.glob("native-*"):
            shutil.rmtree(old)
        with contextlib.suppress(FileExistsError):
            (work / "made").rename(built)


def main() -> None:
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        print(f"the ledger will be interpreted, which is slower: {said[-1] if said else error}", file=sys.stderr)
    from controlplane.telemetry.ingest.otlp import decode

    decode.prepare()


if __name__ == "__main__":
    main()
