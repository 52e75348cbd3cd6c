"""Programs that an agent can plant in a repository so that somebody else's git starts them. Each leaves a mark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.repositories import git

FILE = "planted.txt"
MISSING = "1234567890123456789012345678901234567890"
_ASKED = "protocol=https\nhost=example.invalid\nusername=x\n\n"


@dataclass(frozen=True)
class Plant:
    """`{}` in settings and files stands for the program. `fires` is a command of plain git that starts it."""

    name: str
    fires: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    # Of the file FILE.
    attributes: str = ""
    # In the .git folder; a hook is executable.
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    # The version of git that starts it for the first time.
    since: tuple[int, int] = (2, 0)


def _setting(key: str, *fires: str, attributes: str = "", stdin: str = "", **more: str) -> Plant:
    others = {name.replace("__", "."): value for name, value in more.items()}
    return Plant(key, fires, {key: "{}", **others}, attributes, stdin=stdin)


def _hook(name: str, *fires: str) -> Plant:
    return Plant(f"hook {name}", fires, files={f"hooks/{name}": "#!/bin/sh\n{}\n"})


def _configured_hook(event: str, *fires: str) -> Plant:
    settings = {f"hook.of {event}.event": event, f"hook.of {event}.command": "{}"}
    return Plant(f"configured {event}", fires, settings, since=(2, 54))


STATUS, ADD, DIFF = ("status",), ("add", "--all"), ("diff", "HEAD")
COMMIT = ("commit", "--allow-empty", "-m", "x")
FSMONITOR = "[core]\n\tfsmonitor = {}\n"

ALL_PLANTS = (
    _setting("core.fsmonitor", *STATUS),
    _setting("filter.a.clean", *ADD, attributes="filter=a"),
    _setting("filter.b.smudge", "checkout-index", "--force", FILE, attributes="filter=b"),
    _setting("filter.c.process", *ADD, attributes="filter=c"),
    _setting("filter.with.dots.clean", *ADD, attributes="filter=with.dots"),
    _setting("diff.external", *DIFF),
    _setting("diff.d.command", *DIFF, attributes="diff=d"),
    _setting("diff.e.textconv", *DIFF, attributes="diff=e"),
    _setting("merge.f.driver", "merge-tree", "--write-tree", "one", "two", attributes="merge=f"),
    _setting("core.sshCommand", "fetch", "ssh://example.invalid/x"),
    _setting("core.gitProxy", "fetch", "git://example.invalid/x"),
    _setting("credential.helper", "credential", "fill", stdin=_ASKED),
    _setting("credential.https://example.invalid.helper", "credential", "fill", stdin=_ASKED),
    _setting("core.askPass", "credential", "fill", stdin=_ASKED),
    _setting("gpg.program", *COMMIT, commit__gpgSign="true"),
    _setting("gpg.openpgp.program", *COMMIT, commit__gpgSign="true"),
    _setting("gpg.x509.program", *COMMIT, commit__gpgSign="true", gpg__format="x509"),
    _setting("gpg.ssh.program", *COMMIT, commit__gpgSign="true", gpg__format="ssh", user__signingKey="key::x"),
    _setting("gpg.ssh.defaultKeyCommand", *COMMIT, commit__gpgSign="true", gpg__format="ssh"),
    _setting("core.editor", "commit", "--allow-empty"),
    _setting("sequence.editor", "rebase", "--interactive", "--root"),
    _setting("alias.unheard", "unheard"),
    _setting("trailer.g.command", "interpret-trailers", "--trailer", "g=x"),
    _setting("protocol.ext.allow", "fetch", "ext::{}", protocol__ext__allow="always"),
    _setting("remote.h.uploadpack", "fetch", "h", remote__h__url="."),
    Plant(
        "partial clone",
        ("cat-file", "-p", MISSING),
        {
            "remote.evil.url": "ext::{}",
            "remote.evil.promisor": "true",
            "protocol.ext.allow": "always",
            "extensions.partialClone": "evil",
        },
    ),
    Plant("core.hooksPath", COMMIT, {"core.hooksPath": "{hooks}"}),
    Plant("include.path", STATUS, {"include.path": "more"}, files={"more": FSMONITOR}),
    Plant("includeIf", STATUS, {"includeIf.gitdir:**.path": "also"}, files={"also": FSMONITOR}),
    Plant("config.worktree", STATUS, {"extensions.worktreeConfig": "true"}, files={"config.worktree": FSMONITOR}),
    Plant(
        "core.attributesFile",
        ADD,
        {"filter.i.clean": "{}", "core.attributesFile": ".git/named"},
        files={"named": "*.txt filter=i\n"},
    ),
    Plant("info/attributes", ADD, {"filter.j.clean": "{}"}, files={"info/attributes": "*.txt filter=j\n"}),
    _hook("pre-commit", *COMMIT),
    _hook("commit-msg", *COMMIT),
    _hook("prepare-commit-msg", *COMMIT),
    _hook("post-commit", *COMMIT),
    _hook("reference-transaction", "update-ref", "refs/logos/x", "HEAD"),
    _hook("post-index-change", *ADD),
    _hook("post-checkout", "checkout", "--quiet", "one"),
    _hook("post-merge", "merge", "one"),
    _hook("post-rewrite", "commit", "--amend", "-m", "x"),
    _configured_hook("pre-commit", *COMMIT),
    _configured_hook("reference-transaction", "update-ref", "refs/logos/x", "HEAD"),
    _configured_hook("post-index-change", *ADD),
    _configured_hook("post-checkout", "checkout", "--quiet", "one"),
)
_VERSION = tuple(map(int, subprocess.check_output(["git", "version"], text=True).split()[2].split(".")[:2]))
PLANTS = tuple(plant for plant in ALL_PLANTS if plant.since <= _VERSION)


def marks(folder: Path) -> list[str]:
    """The plants that were started."""
    return sorted(path.name for path in folder.glob("ran-*"))


def plant(wd: Path, marks_in: Path, plants: tuple[Plant, ...]) -> None:
    """Put plants into a repository that has FILE; the file gets a new time stamp, so that git must look into it."""
    home = wd / ".git"
    for it in plants:
        program = _program(marks_in, it.name)
        hooks = marks_in / "hooks"
        if "{hooks}" in it.settings.values():
            hooks.mkdir(exist_ok=True)
            _executable(hooks / "pre-commit", f"#!/bin/sh\n{program}\n")
        for name, text in it.files.items():
            (home / name).parent.mkdir(exist_ok=True)
            _executable(home / name, text.replace("{}", str(program)))
        for key, value in it.settings.items():
            text = value.replace("{}", str(program)).replace("{hooks}", str(hooks))
            # By another file than the command's own: some of these settings break git itself.
            git(
                marks_in,
                "config",
                "--file",
                str(home / "config"),
                key,
                f"!{text}" if key.startswith("alias.") else text,
            )
    # The last line wins, so that only one filter can be an attribute of a file: each has its own name.
    lines = [f"{FILE} {it.attributes}\n" for it in plants if it.attributes]
    with (wd / ".gitattributes").open("a") as file:
        file.writelines(lines)
    os.utime(wd / FILE, (1, 1))


def fire(it: Plant, wd: Path, marks_in: Path) -> None:
    """Run the command of plain git that starts a plant."""
    words = [word.replace("{}", str(_program(marks_in, it.name))) for word in it.fires]
    home = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "1"}
    for name in ("GIT_EDITOR", "EDITOR", "VISUAL", "SSH_ASKPASS"):
        home.pop(name, None)
    subprocess.run(
        ["git", *words], cwd=wd, env={**os.environ, **home}, input=it.stdin, text=True, capture_output=True, timeout=60
    )


def _program(folder: Path, name: str) -> Path:
    slug = "".join(letter if letter.isalnum() else "-" for letter in name)
    program = folder / f"plant-{slug}"
    _executable(program, f"#!/bin/sh\necho started >>'{folder}/ran-{slug}'\n")
    return program


def _executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
