"""Compiles what runs for every span to machine code with mypyc: the same source runs more than twice as fast.

`python -m controlplane.telemetry.ingest.native` (part of `make setup`) needs a C compiler and about half a minute. The result lies in the
virtual environment under the digest of its sources, so a build of other sources is never used. Without a build the source is
interpreted. The command also compiles the kernel that reads OTLP (`ingest.compiled`), so that the first start need not wait for it.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).resolve().parents[3]
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


KEPT_S = 7 * 86400.0
"""A build of other sources is deleted when it was not used for so long, s: another checkout may share this environment."""


def sources() -> list[Path]:
    """The modules that are compiled, relative to the repository's root."""
    adapters = sorted((_ROOT / _TELEMETRY / "ledger" / "adapters").glob("*.py"))
    return [
        _TELEMETRY / "core" / "spans.py",
        *(_TELEMETRY / "ledger" / f"{name}.py" for name in _LEDGER),
        *(path.relative_to(_ROOT) for path in adapters),
        _TELEMETRY / "ingest" / "otlp" / "decode" / "pairs.py",
        _TELEMETRY / "ingest" / "otlp" / "decode" / "values.py",
    ]


def folder() -> Path:
    """The folder of the build of these sources for this Python, whether it exists or not."""
    digest = hashlib.sha256(_SUFFIX.encode())
    for source in sources():
        digest.update(str(source).encode() + (_ROOT / source).read_bytes())
    return Path(sys.prefix) / "share" / "weir" / f"native-{digest.hexdigest()[:16]}"


def use() -> bool:
    """Import compiled modules from now on. Call it before any of them is imported. False where there is no build."""
    built = folder()
    if not built.is_dir():
        return False
    with contextlib.suppress(OSError):  # the environment may be read-only
        os.utime(built)
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
        file = self._files.get(fullname)
        if file is None:
            return None
        package = [str(_ROOT.joinpath(*fullname.split(".")))] if file.name.startswith("__init__.") else None
        return spec_from_file_location(
            fullname, file, loader=ExtensionFileLoader(fullname, str(file)), submodule_search_locations=package
        )


def build() -> None:
    """Compile these sources unless a build exists. Raises OSError or subprocess.CalledProcessError where that fails."""
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
        with contextlib.suppress(FileExistsError):
            (work / "made").rename(built)
    _delete_unused(built.parent)


def _delete_unused(builds: Path) -> None:
    for build in builds.glob("native-*"):
        with contextlib.suppress(OSError):
            if time.time() - build.stat().st_mtime > KEPT_S:
                shutil.rmtree(build)


def main() -> None:
    try:
        build()
    except (OSError, subprocess.CalledProcessError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        print(f"the ledger will be interpreted, which is slower: {lines[-1] if lines else error}", file=sys.stderr)
        if sys.argv[1:] == ["--required"]:
            sys.exit(1)
    from controlplane.telemetry.ingest.otlp.decode import export_request

    export_request.prepare(reading=True)


if __name__ == "__main__":
    main()
