"""A hostile agent can neither change what runs in a clean room, nor reach out of it, nor make a killed one stay."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import logos
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.proof.bubblewrap import Bubblewrap
from logos.adapters.proof.prover import RoomProver
from logos.adapters.proof.rooms import rooms_folder
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import Prove, TurnId
from tests.hostile.conftest import mostly_long
from tests.hostile.plants import FILE, PLANTS, marks, plant
from tests.support.proving import SANDBOXES, Project, rooms_left
from tests.support.repositories import git, write_files
from tests.support.sandbox import persons_things, processes_of
from tests.support.waiting import until_exists, wait_for

NOBODY = 65534
CASE = (
    "import unittest\n\n\nclass Case(unittest.TestCase):\n    def test_{0}(self):\n        self.assertEqual(1, {1})\n"
)
SHOP = {"shop.py": "price = 1\n", "tests/__init__.py": "", "tests/test_shop.py": CASE.format("price", "1")}
UNITTEST = f"{sys.executable} -m unittest discover -s tests -t ."
STEPS = (ProofStep.BASELINE, ProofStep.RESULT, ProofStep.GUARDED, ProofStep.CANARY, ProofStep.RED)
Make = Callable[..., Project]


@pytest.fixture(params=SANDBOXES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    made: list[Project] = []

    def project(files: dict[str, str] = SHOP) -> Project:
        made.append(Project.of(tmp_path / "repo", files, request.param))
        return made[-1]

    yield project
    for one in made:
        one.prover.close()
    assert rooms_left() == []
    assert processes_of(rooms_folder()) == []


def test_no_planted_program_starts_when_a_room_is_made(make: Make, tmp_path: Path) -> None:
    shop = make({**SHOP, FILE: "text\n"})
    plant(shop.wd, tmp_path, PLANTS)
    ran = shop.baseline("git status >/dev/null; git diff HEAD >/dev/null; git commit -qam x; git log --oneline | wc -l")
    assert (ran.exit_code, ran.problem) == (0, "")
    assert ran.output.strip() == "2"
    assert marks(tmp_path) == []


def test_attributes_do_not_keep_tests_out_of_a_room(make: Make) -> None:
    shop = make()
    before = shop.take()
    result = shop.write({".gitattributes": "tests/** export-ignore filter=x text eol=crlf\n", "shop.py": "price = 2\n"})
    ran = shop.prove(ProofStep.RESULT, "cat tests/test_shop.py", before, result)
    assert ran.output == SHOP["tests/test_shop.py"]


@pytest.mark.parametrize("kind", ["blob", "tree", "commit"])
def test_objects_that_were_swapped_are_a_problem_and_nothing_runs(make: Make, kind: str) -> None:
    shop = make()
    shop.write({"tests/test_shop.py": CASE.format("price", "2")})
    good = shop.take()
    bad = shop.write({"tests/test_shop.py": CASE.format("price", "1")})
    names = {"blob": ":tests/test_shop.py", "tree": "^{tree}", "commit": ""}
    swap(shop.wd, git(shop.wd, "rev-parse", f"{good}{names[kind]}"), git(shop.wd, "rev-parse", f"{bad}{names[kind]}"))
    ran = shop.prove(ProofStep.BASELINE, "echo it ran", good)
    assert "not to be trusted" in ran.problem
    assert "it ran" not in ran.output
    assert ran.exit_code != 0


def swap(wd: Path, name: str, other: str) -> None:
    """Store under the name of an object what another one contains, as git reads it."""
    files = [wd / ".git" / "objects" / it.strip()[:2] / it.strip()[2:] for it in (name, other)]
    content = zlib.decompress(files[1].read_bytes())
    files[0].chmod(0o600)
    files[0].write_bytes(zlib.compress(content))


def test_replaced_and_grafted_commits_are_not_used(make: Make) -> None:
    shop = make()
    good = shop.write({"shop.py": "price = 2\n"})
    bad = shop.write({"shop.py": "price = 3\n"})
    git(shop.wd, "update-ref", f"refs/replace/{good}", bad)
    (shop.wd / ".git" / "info").mkdir(exist_ok=True)
    (shop.wd / ".git" / "info" / "grafts").write_text(f"{good} {bad}\n")
    ran = shop.prove(ProofStep.BASELINE, "cat shop.py", good)
    assert (ran.output, ran.problem) == ("price = 2\n", "")


def test_links_that_lead_out_are_kept_and_never_followed_by_logos(make: Make, tmp_path: Path) -> None:
    shop = make({**SHOP, "conftest.py": "old\n"})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "conftest.py").write_text("untouched")
    base = shop.take()
    (shop.wd / "conftest.py").unlink()
    (shop.wd / "conftest.py").symlink_to(tmp_path / "outside" / "conftest.py")
    (shop.wd / "way").symlink_to("/etc")
    shutil.rmtree(shop.wd / "tests")
    (shop.wd / "tests").symlink_to(tmp_path / "outside")
    result = shop.take()
    own = shop.prove(ProofStep.RESULT, "readlink way conftest.py tests", base, result)
    assert own.output.split() == ["/etc", str(tmp_path / "outside" / "conftest.py"), str(tmp_path / "outside")]
    guarded = shop.prove(ProofStep.GUARDED, "cat conftest.py; ls tests", base, result)
    assert guarded.output.split() == ["old", "__init__.py", "test_shop.py"]
    assert (tmp_path / "outside" / "conftest.py").read_text() == "untouched"


def test_a_planted_repository_inside_the_work_dir_is_not_in_the_room(make: Make) -> None:
    shop = make()
    base = shop.take()
    write_files(shop.wd, {"tests/sub/.git/config": "[core]\n\tfsmonitor = false\n", "tests/sub/a.py": "x = 1\n"})
    ran = shop.prove(ProofStep.RESULT, "find . -name .git", base, shop.take())
    assert ran.output.split() == ["./.git"]


def test_programs_and_modules_of_the_work_tree_are_not_found(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = make({**SHOP, ".gitignore": "bin/\nlib/\n"})
    write_files(shop.wd, {"bin/sort": "#!/bin/sh\necho planted\n", "lib/sitecustomize.py": "print('planted')\n"})
    (shop.wd / "bin" / "sort").chmod(0o755)
    folders = (str(shop.wd / "bin"), "bin", "", os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_PATH"):
        monkeypatch.setenv(name, str(shop.wd / "lib"))
    monkeypatch.setenv("NODE_OPTIONS", f"--require={shop.wd}/lib/x.js")
    monkeypatch.setenv("BASH_ENV", str(shop.wd / "lib" / "x.sh"))
    again = Project(shop.wd, shop.sandbox, shop.snapshots)
    ran = again.baseline(f"echo x | sort; {sys.executable} -c 'print(1)'; env")
    again.prover.close()
    assert ran.output.split()[:2] == ["x", "1"]
    assert f"{shop.wd}/lib" not in ran.output
    assert "BASH_ENV" not in ran.output


def test_a_module_planted_in_a_lent_environment_is_noticed(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": ".venv/\n"})
    site = ".venv/lib/python3.11/site-packages"
    write_files(shop.wd, {f"{site}/dep.py": "x = 1\n", f"{site}/__pycache__/dep.cpython-311.pyc": "compiled"})
    before = shop.baseline("true")
    write_files(shop.wd, {f"{site}/__pycache__/other.cpython-311.pyc": "compiled by a test run of the agent"})
    assert shop.result("true", before).problem == ""
    write_files(shop.wd, {f"{site}/sitecustomize.py": "import os; os._exit(0)\n"})
    assert ".venv changed since the run started" in shop.result("true", before).problem
    (shop.wd / site / "sitecustomize.py").unlink()
    assert shop.result("true", before).problem == ""
    old = (shop.wd / site / "dep.py").stat()
    write_files(shop.wd, {f"{site}/dep.py": "x = 2\n"})
    os.utime(shop.wd / site / "dep.py", ns=(old.st_atime_ns, old.st_mtime_ns))
    assert ".venv changed since the run started" in shop.result("true", before).problem


def test_compiled_modules_of_a_lent_environment_are_not_read(make: Make) -> None:
    shop = make({**SHOP, ".gitignore": "vendor/\n"})
    write_files(shop.wd, {"vendor/dep.py": "print('source')\n", "vendor/evil.py": "print('planted')\n"})
    source = shop.wd / "vendor" / "dep.py"
    os.utime(source, (1_000_000_000, 1_000_000_000))
    compiled = (
        f"import py_compile, os; p = py_compile.compile({str(shop.wd / 'vendor' / 'evil.py')!r}); "
        f"import importlib.util as u; t = u.cache_from_source({str(source)!r}); b = open(p, 'rb').read(); "
        f"s = os.stat({str(source)!r}); open(t, 'wb').write(b[:8] + int(s.st_mtime).to_bytes(4, 'little') "
        "+ s.st_size.to_bytes(4, 'little') + b[16:])"
    )
    subprocess.run([sys.executable, "-c", compiled], check=True)
    script = "import sys; sys.path.insert(0, 'vendor'); import dep"
    outside = subprocess.run([sys.executable, "-c", script], cwd=shop.wd, capture_output=True, text=True, check=True)
    assert outside.stdout == "planted\n"
    assert shop.baseline(f'{sys.executable} -c "{script}"').output == "source\n"


def test_nothing_of_a_room_is_seen_in_the_persons_repository(make: Make) -> None:
    shop = make()
    write_files(shop.wd, {"shop.py": "price = 3\n"})
    git(shop.wd, "stash")
    write_files(shop.wd, {"shop.py": "price = 2\n"})
    base = shop.take()
    result = shop.write(
        {"tests/test_shop.py": CASE.format("price", "1 + 0"), "tests/test_new.py": CASE.format("a", "1")}
    )
    was = persons_things(shop.wd)
    deeds = "git stash -q; git checkout -qb evil; git tag evil; git commit -q --allow-empty -m x; rm -rf .git"
    for step in STEPS:
        ran = shop.prove(step, f"{deeds}; {UNITTEST}", base, "" if step is ProofStep.BASELINE else result)
        assert ran.problem == ""
    assert persons_things(shop.wd) == was


# -- the sandbox


@pytest.fixture
def boxed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    # So that everything in this folder is visible, although it is below the folder for temporary files.
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    shop = Project.of(tmp_path / "repo", SHOP, "bubblewrap")
    yield shop
    shop.prover.close()


def test_a_sandbox_cannot_be_left(boxed: Project, tmp_path: Path, state: Path) -> None:
    (state / "logos" / "mirrors").mkdir(parents=True)
    (state / "logos" / "mirrors" / "log").write_text("record")
    attempts = (
        f"touch {tmp_path}/out",
        f"touch {state}/out",
        f"ls {state}/logos/mirrors",
        f"mount -o remount,rw / && touch {tmp_path}/out",
        f"mount -o remount,rw,bind {tmp_path} && touch {tmp_path}/out",
        f"unshare -m mount -o remount,rw,bind {tmp_path}",
        f"unshare -Urm mount -o remount,rw,bind {tmp_path}",
        f"mount -t tmpfs none {tmp_path}",
        f"umount {state}/logos && ls {state}/logos/mirrors",
        f"kill -9 {os.getpid()}",
        f"kill -9 {os.getppid()}",
        "mknod /dev/sda b 8 0",
        f"chroot /proc/1/root touch {tmp_path}/out",
    )
    for attempt in attempts:
        ran = boxed.baseline(f"({attempt}) && echo it worked")
        assert "it worked" not in ran.output, attempt
        assert ran.problem == ""
    assert not any((folder / "out").exists() for folder in (tmp_path, state))
    seen = boxed.baseline("ls /proc | grep -c '^[0-9]'; cat /proc/1/comm")
    assert int(seen.output.split()[0]) < 10


def test_the_room_looks_like_the_work_tree_and_has_its_own_temporary_files(boxed: Project, tmp_path: Path) -> None:
    # In the folder that everybody has, whatever TMPDIR says.
    marker = Path("/tmp", f"of-the-machine-{os.getpid()}")
    marker.write_text("seen")
    try:
        ran = boxed.baseline(f"pwd; echo $LOGOS_ROOT; echo x >/tmp/mine; cat {marker}; ls {tmp_path}; echo $TMPDIR")
    finally:
        marker.unlink()
    assert ran.output.split("\n")[:2] == [str(boxed.wd), str(boxed.wd)]
    assert "seen" not in ran.output
    assert "repo" in ran.output.split()
    assert not Path("/tmp/mine").exists()


def test_an_environment_below_the_folder_for_temporary_files_stays_visible(boxed: Project, tmp_path: Path) -> None:
    write_files(
        tmp_path, {"tool/bin/greet": '#!/bin/sh\ncat "$(dirname "$0")/../lib/words"\n', "tool/lib/words": "hello"}
    )
    (tmp_path / "tool" / "bin" / "greet").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}/tool/bin:{os.environ['PATH']}"}
    prover = RoomProver(boxed.wd, boxed.snapshots, lambda _: boxed.sandbox, environ)
    action = Prove(TurnId("p"), ProofStep.BASELINE, ProofRules(f"greet; {tmp_path}/tool/bin/greet"), boxed.take())
    ran = prover.run(action, threading.Event())
    prover.close()
    assert (ran.exit_code, ran.output) == (0, "hellohello")


# -- killed drivers


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("step", mostly_long(STEPS, ProofStep.RESULT))
def test_a_driver_killed_in_the_middle_of_a_step_leaves_nothing(tmp_path: Path, sandbox: str, step: ProofStep) -> None:
    wd, base, result, box = prepared(tmp_path, sandbox)
    command = f"echo begun; (sleep 600 & exec sleep 600); {UNITTEST}"
    pid = in_fork(lambda: prove(wd, box, step, command, base, result))
    wait_for(
        lambda: any("begun" in out.read_text() for out in rooms_folder().glob("*/*/commands/*/out")), "the command"
    )
    assert processes_of(rooms_folder())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert_removed_by_the_next(wd, box)


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_a_driver_killed_in_a_setup_leaves_nothing(tmp_path: Path, sandbox: str) -> None:
    wd, base, _, box = prepared(tmp_path, sandbox)
    setup = "mkdir -p a/b; chmod 500 a/b a; echo begun; sleep 600"
    pid = in_fork(lambda: prove(wd, box, ProofStep.BASELINE, "true", base, "", setup))
    wait_for(lambda: any("begun" in out.read_text() for out in rooms_folder().glob("*/*/commands/*/out")), "the setup")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert_removed_by_the_next(wd, box)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("step", [ProofStep.BASELINE, ProofStep.GUARDED])
def test_a_driver_killed_at_any_instant_leaves_nothing(tmp_path: Path, sandbox: str, step: ProofStep) -> None:
    wd, base, result, box = prepared(tmp_path, sandbox)
    was = persons_things(wd)
    instant, killed = 1, True
    while killed:
        pid = in_fork(lambda: prove(wd, box, step, "true", base, result), die_at=instant)
        killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        assert_removed_by_the_next(wd, box)
        # Most of the instants are alike.
        instant += 1 if instant < 20 else 5
    assert instant > 30
    assert persons_things(wd) == was


def prepared(tmp_path: Path, sandbox: str) -> tuple[Path, str, str, Bubblewrap | None]:
    """A repository with a base and a result of which every step has something to run."""
    shop = Project.of(tmp_path / "repo", SHOP, sandbox)
    base = shop.take()
    result = shop.write({"shop.py": "price = 2\n", "tests/test_shop.py": CASE.format("price", "1 + 0")})
    shop.prover.close()
    return shop.wd, base, result, shop.sandbox


def prove(
    wd: Path, box: Bubblewrap | None, step: ProofStep, command: str, base: str, result: str, setup: str = ""
) -> None:
    prover = RoomProver(wd, GitSnapshots(wd), lambda _: box)
    rules = ProofRules(command, setup, reruns=0)
    passed = ("tests/test_shop.py::Case::test_price",) if step is ProofStep.CANARY else ()
    changed = ("shop.py", "tests/test_shop.py")
    prover.run(Prove(TurnId("p"), step, rules, base, result, changed, passed=passed), threading.Event())
    prover.close()


_DEEDS = {
    "os.mkdir",
    "os.rename",
    "os.rmdir",
    "os.remove",
    "os.link",
    "subprocess.Popen",
    "shutil.rmtree",
    "fcntl.flock",
}


def in_fork(work: Callable[[], None], die_at: int = 0) -> int:
    """Work in another process, which kills itself before it changes something for the nth time."""
    pid = os.fork()
    if pid:
        return pid
    left = die_at

    def count(event: str, _given: object) -> None:
        nonlocal left
        if event in _DEEDS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        if die_at:
            sys.addaudithook(count)
        work()
    except BaseException as error:  # noqa: BLE001
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)
    os._exit(0)


def assert_removed_by_the_next(wd: Path, box: Bubblewrap | None) -> None:
    prover = RoomProver(wd, GitSnapshots(wd), lambda _: box)
    others = [folder for folder in rooms_folder().iterdir() if folder != prover._rooms.folder]
    assert others == []
    assert processes_of(rooms_folder()) == []
    prover.close()
    assert rooms_left() == []
    assert str(rooms_folder()) not in Path("/proc/self/mountinfo").read_text()


def test_rooms_of_a_live_prover_are_left_alone(make: Make) -> None:
    shop = make()
    base = shop.take()
    seen: list[str] = []
    live = threading.Thread(
        target=lambda: seen.append(
            shop.prove(ProofStep.BASELINE, f"echo begun; {until_exists('/nowhere/x')}", base, timeout=2).output
        )
    )
    live.start()
    wait_for(
        lambda: any("begun" in out.read_text() for out in rooms_folder().glob("*/*/commands/*/out")), "the command"
    )
    other = RoomProver(shop.wd, GitSnapshots(shop.wd), lambda _: shop.sandbox)
    assert any(rooms_folder().glob("*/*/tree/shop.py"))
    other.close()
    live.join()
    assert seen[0].startswith("begun")


# -- another user

_AS_ANOTHER = """
import sys, threading
from pathlib import Path
from logos.adapters.git.snapshots import GitSnapshots
from logos.adapters.proof.bubblewrap import working
from logos.adapters.proof.prover import RoomProver
from logos.adapters.proof.rooms import rooms_folder
from logos.domain.proof import ProofRules, ProofStep
from logos.domain.turns import Prove, TurnId

wd = Path(sys.argv[1])
snapshots = GitSnapshots(wd)
base = snapshots.take()
for find in (working, lambda _: None):
    prover = RoomProver(wd, snapshots, find)
    rules = ProofRules("id -u; pwd; cat a.txt; touch /etc/x; mkdir -p ro/x; chmod 500 ro/x ro; exit 3", reruns=0)
    ran = prover.run(Prove(TurnId("p"), ProofStep.BASELINE, rules, base), threading.Event())
    prover.close()
    print(ran.exit_code, ran.room.sandbox or "none", ran.problem, *ran.output.split())
    print(*rooms_folder().iterdir())
"""


def test_rooms_work_for_a_user_who_is_not_root() -> None:
    """Where the tests run as root: for another user, with a copy of the source that this user can read."""
    python = next(
        (path for path in ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable) if usable(path)), None
    )
    if python is None:
        pytest.skip("no Python 3.11 that another user can start")
    folder = Path(tempfile.mkdtemp(prefix="logos-nobody-"))
    try:
        shutil.copytree(
            Path(logos.__file__).parent, folder / "src" / "logos", ignore=shutil.ignore_patterns("__pycache__")
        )
        write_files(folder / "repo", {"a.txt": "text\n"})
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
            git(folder / "repo", *words)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, *another(), follow_symlinks=False)
        env = {"PATH": os.defpath, "HOME": str(folder / "home"), "PYTHONPATH": str(folder / "src")}
        done = subprocess.run(
            [python, "-c", _AS_ANOTHER, str(folder / "repo")], env=env, **as_another(), capture_output=True, text=True
        )
        boxed, after, bare, later = done.stdout.split("\n")[:4]
        uid = str(another()[0])
        assert boxed.split()[:3] == ["3", "bubblewrap", uid], done
        assert str(folder / "repo") in boxed.split()
        assert bare.split()[:3] == ["3", "none", uid], done
        assert (after, later) == ("", "")
    finally:
        shutil.rmtree(folder)


def another() -> tuple[int, int]:
    return (NOBODY, NOBODY) if os.geteuid() == 0 else (os.getuid(), os.getgid())


def as_another() -> dict:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"} if os.geteuid() == 0 else {}


def usable(python: str) -> bool:
    check = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return subprocess.run([python, "-c", check], **as_another(), capture_output=True).returncode == 0
    except OSError:
        return False
