"""Build the distributions, install the wheel in a clean environment, and run the README's commands from it.

Run by `make release-check`. Nothing is imported from the source tree: commands run in an empty folder.
"""

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from readme import commands, example, shortened

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def main() -> None:
    """Build, install and run; stop at the first failure."""
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)], ROOT)
    wheel = next(dist.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        check(wheel, Path(folder))
    print(f"\nrelease check passed: {', '.join(sorted(path.name for path in dist.iterdir()))}")


def check(wheel: Path, folder: Path) -> None:
    """Install the wheel by stages, and run at each stage what it promises to support."""
    environment, work = folder / "venv", folder / "work"
    work.mkdir()
    venv.create(environment, with_pip=True)
    bin_ = environment / "bin"

    install(bin_, str(wheel))
    run([str(bin_ / "python"), "-W", "error", "-c", example(README)], work)

    install(bin_, f"{wheel}[cli]")
    for words in ("--version", "--help", "list estimators", "list experiments"):
        run([str(bin_ / "f2ed"), *words.split()], work)

    install(bin_, f"{wheel}[train,report,flower]")
    shutil.copytree(ROOT / "examples", work / "examples")
    run([str(bin_ / "f2ed"), "list"], work)
    for command in commands(README):
        run([str(bin_ / "f2ed"), *shortened(command)[1:]], work)


def install(bin_: Path, what: str) -> None:
    """Install into the clean environment, within the versions that the tests run with."""
    pip = [str(bin_ / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "--constraint", str(ROOT / "constraints.txt"), what], ROOT)


def run(command: list[str], folder: Path) -> None:
    """Run a command in a folder, and exit if it fails."""
    shown = " ".join([Path(command[0]).name, *command[1:]]).partition("\n")[0]
    print(f"$ {shown}", flush=True)
    if subprocess.run(command, cwd=folder, check=False).returncode:
        raise SystemExit(f"release check failed at: {shown}")


if __name__ == "__main__":
    main()
