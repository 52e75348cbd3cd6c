"""The wheel: what an installed Logos needs is in it, and it works without the clone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # The build back end itself: pip would fetch it first.
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [found] = folder.glob("logos_agents-*.whl")
    return found


def test_the_wheel_has_every_file_of_the_source_and_no_other(wheel: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src/logos"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    source = {name.removeprefix("src/") for name in listed.split("\0") if name and (ROOT / name).exists()}
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("logos/")}
    assert {".py", ".j2", ".md", ".sql", ".cjs", ".toml"} <= {Path(name).suffix for name in source}
    assert packed == source


@pytest.mark.long
def test_the_demo_runs_from_an_unpacked_wheel_in_any_folder(wheel: Path, tmp_path: Path) -> None:
    site, empty = tmp_path / "site", tmp_path / "empty"
    zipfile.ZipFile(wheel).extractall(site)
    empty.mkdir()
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(site)}
    show = "import logos, logos.cli; print(logos.__file__, flush=True); logos.cli.main()"
    done = subprocess.run(
        [sys.executable, "-c", show, "demo"], cwd=empty, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site))
    assert "PASSED: the tester reported PASS, and Logos has proven it" in done.stdout
    assert not list(empty.iterdir())
