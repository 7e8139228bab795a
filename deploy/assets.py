"""Fetches third-party scripts into `static/vendor/`, which is not committed. Set-up runs `python -m deploy.assets`.

plotly.js comes as npm's bundle of cartesian charts (410 KB compressed), pinned and checked against its published hash. Without npm
or a network, the whole bundle of plotly's wheel (1.1 MB compressed) is used. `--tests` also fetches axe-core, for the
accessibility tests, and providers of OpenID Connect and SAML. The exit status is always 0: a script that cannot be fetched is reported.
"""

import argparse
import base64
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "static" / "vendor"
FOR_TESTS = ROOT / "build" / "vendor"
FETCH_TIMEOUT_S = 60


class Package(NamedTuple):
    name: str
    version: str
    sha512: str  # of the tarball, base64: npm's `dist.integrity`
    member: str


PLOTLY = Package(
    "plotly.js-cartesian-dist-min",
    "4.1.1",
    "o8GrFeusncwBIxbBynRJpY4pkgVB6caM+JLpwrLYbbsO7dZ8FJ+SVN2Fr+L7kiG/Z6w4P5O0Jus/Qr5EefHVeg==",
    "package/plotly-cartesian.min.js",
)
AXE = Package(
    "axe-core",
    "4.11.0",
    "ilYanEU8vxxBexpJd8cWM4ElSQq4QctCLKih0TSfjIfCQTeyH/6zVrmIJfLPrKTKJRbiG+cfnZbQIjAlJmF1jQ==",
    "package/axe.min.js",
)


class NotFetchedError(Exception):
    """Permanent: a script cannot be fetched. The message is one sentence with the reason."""


def fetch(package: Package, folder: Path) -> Path:
    """One file of an npm package, into `folder`, unless this version is there. Raises NotFetchedError."""
    target = folder / Path(package.member).name
    stamp = folder / f".{package.name}-{package.version}"
    if target.is_file() and stamp.is_file():
        return target
    npm = shutil.which("npm")
    if npm is None:
        raise NotFetchedError("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            npm,
            "pack",
            "--silent",
            "--ignore-scripts",
            "--pack-destination",
            scratch,
            f"{package.name}@{package.version}",
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=FETCH_TIMEOUT_S, cwd=scratch)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise NotFetchedError(f"npm gave no {package.name} within {FETCH_TIMEOUT_S} s") from None
        except subprocess.CalledProcessError as error:
            raise NotFetchedError(
                f"npm gave no {package.name}: {error.stderr.decode(errors='replace').strip()[-300:]}"
            ) from None
        [tarball] = Path(scratch).glob("*.tgz")
        digest = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if digest != package.sha512:
            raise NotFetchedError(f"{package.name} {package.version} does not have its published hash: it is not used")
        with tarfile.open(tarball) as archive:
            member = archive.extractfile(package.member)
            if member is None:
                raise NotFetchedError(f"{package.name} has no {package.member}")
            draft = target.with_suffix(".part")
            draft.write_bytes(member.read())
    draft.replace(target)
    stamp.touch()
    return target


def whole_plotly(folder: Path) -> Path:
    """The bundle in plotly's wheel."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise NotFetchedError("plotly is not installed: run `make setup`")
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy2(Path(spec.origin).parent / "package_data" / "plotly.min.js", folder / "plotly.min.js"))


def fetch_locked(source: Path, folder: Path) -> Path:
    """The npm packages of a lock file, into `folder`, unless they are there. Raises NotFetchedError."""
    lock = source / "package-lock.json"
    stamp = folder / ".fetched"
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return folder
    if shutil.which("npm") is None:
        raise NotFetchedError("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", lock.name):
        shutil.copy2(source / name, folder)
    try:
        subprocess.run(
            ["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"],  # noqa: S607
            check=True,
            capture_output=True,
            timeout=FETCH_TIMEOUT_S,
            cwd=folder,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        raise NotFetchedError(f"npm did not install what {lock.name} names: {error}") from None
    stamp.write_bytes(lock.read_bytes())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tests", action="store_true", help="also what only tests need")
    options = parser.parse_args()
    try:
        print(f"plotly.js: {fetch(PLOTLY, VENDOR).relative_to(ROOT)}")
    except NotFetchedError as error:
        print(
            f"plotly.js: {whole_plotly(VENDOR).relative_to(ROOT)}, the whole bundle, because {error}", file=sys.stderr
        )
    if options.tests:
        try:
            print(f"axe-core: {fetch(AXE, FOR_TESTS).relative_to(ROOT)}")
        except NotFetchedError as error:
            print(
                f"axe-core: absent, because {error}; the accessibility tests use their own simpler checks",
                file=sys.stderr,
            )
        for protocol in ("oidc", "saml"):
            try:
                fetched = fetch_locked(ROOT / "tests" / "support" / protocol, FOR_TESTS / protocol)
                print(f"provider, {protocol}: {fetched.relative_to(ROOT)}")
            except NotFetchedError as error:
                print(
                    f"provider, {protocol}: absent, because {error}; tests of log-in through it are skipped",
                    file=sys.stderr,
                )


if __name__ == "__main__":
    main()
