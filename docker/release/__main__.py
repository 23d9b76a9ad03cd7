"""Makes a release of lance-flight from a clean checkout: wheel, sdist, image, changelog, SBOM, licences and checksums.

    uv run python docker/release --out DIRECTORY

Everything is made from the files of the newest commit, at its time, twice, and must have the same bytes both times. Nothing is
published, and no tag is set. docs/releasing.md says what is refused, and what to do with the result.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from checkout import Checkout, ReleaseError
from dependencies import Dependencies
from packages import build_twice

IMAGE = "tests.deployment.image"
SUMS = "SHA256SUMS"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], prog="python docker/release")
    parser.add_argument("--out", type=Path, required=True, help="directory for the files, which is made")
    parser.add_argument(
        "--no-image",
        action="store_true",
        help="leave out the image, which takes minutes, root, buildah and debootstrap",
    )
    parser.add_argument(
        "--registry", action="store_true", help="pull the base image instead of making one of Debian's packages"
    )
    parser.add_argument(
        "--candidate", action="store_true", help="take a changelog that says 'not released yet', for trying this out"
    )
    parser.add_argument("--remote", metavar="NAME", help="also ask this remote repository for a tag of the version")
    parser.add_argument(
        "--checkout",
        type=Path,
        default=Path(__file__).parent.parent.parent,
        help="checkout to release (default: the one of this command)",
    )
    options = parser.parse_args()
    try:
        release(options)
    except ReleaseError as exc:
        print(f"release: {exc}", file=sys.stderr)
        return 1
    return 0


def release(options: argparse.Namespace) -> None:
    """Check the checkout, then make every file in a directory beside the one that is wanted, which is renamed at the end."""
    checkout = Checkout.of(options.checkout.resolve())
    checkout.check(is_candidate=options.candidate, remote=options.remote)
    out: Path = options.out.resolve()
    if out.exists():
        raise ReleaseError(f"{out} is there already; expected a directory that is not")
    print(f"lance-flight {checkout.version} from commit {checkout.commit}")
    with tempfile.TemporaryDirectory(prefix="lance-flight-release-") as name:
        work, made = Path(name), Path(name) / "made"
        made.mkdir()
        dependencies = Dependencies.of(checkout, work)
        (made / "sbom.cdx.json").write_bytes(dependencies.sbom())
        (made / "LICENCES.txt").write_text(dependencies.licences())
        print(f"  sbom.cdx.json and LICENCES.txt of {len(dependencies.components)} dependencies")
        for file in build_twice(checkout, work):
            shutil.copy(file, made)
            print(f"  {file.name}, the same twice")
        (made / f"CHANGELOG-{checkout.version}.md").write_text(checkout.changes())
        if not options.no_image:
            make_image(checkout, work, made, is_pulled=options.registry)
        (made / SUMS).write_text(sums(made))
        shutil.move(made, out)
    print(f"{out}: {len(list(out.iterdir()))} files; `sha256sum -c {SUMS}` there compares them")


def make_image(checkout: Checkout, work: Path, made: Path, *, is_pulled: bool) -> None:
    """Build the image of the exported files, try it, and keep it as an OCI archive."""
    archive = made / f"lance-flight-{checkout.version}.oci.tar"
    arguments = ["--archive", str(archive), "--timestamp", str(checkout.epoch), *(["--registry"] if is_pulled else [])]
    ended = subprocess.run([sys.executable, "-m", IMAGE, *arguments], cwd=checkout.export(work / "image"), check=False)
    if ended.returncode:
        raise ReleaseError("the image could not be built, or did not do what it must; see above")


def sums(directory: Path) -> str:
    """Return the checksums of all files, as `sha256sum` prints them."""
    files = sorted(file for file in directory.iterdir() if file.is_file())
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


if __name__ == "__main__":
    sys.exit(main())
