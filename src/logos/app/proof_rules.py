"""The rules by which the result of a run is proven, from its settings and telos.toml."""

from logos.app.settings import Settings
from logos.app.telos_file import TELOS_FILE, Telos, worktree_setup
from logos.domain.levels import Level
from logos.domain.proof import ProofRules


def proof_rules(settings: Settings) -> ProofRules | None:
    """How the PASS of a cycle is proven; None where it is not verified."""
    if not (settings.verify_pass and settings.project_test_cmd):
        return None
    return settings.proof_rules(settings.project_test_cmd, _setup_of(settings))


def build_proof_rules(settings: Settings, telos: Telos) -> ProofRules | None:
    """A build is proven by the tools of L2, which test what its authors wrote."""
    commands = [tool.command for tool in telos.tools if tool.level is Level.L2]
    if settings.verify_pass is False or not commands:
        return None
    together = commands[0] if len(commands) == 1 else " && ".join(f"( {command} )" for command in commands)
    return settings.proof_rules(together, _room_setup(telos.setup))


def _setup_of(settings: Settings) -> str:
    """The setup of telos.toml, where the settings have none. One that cannot be read would be missed in every room."""
    if settings.proof.setup is not None or not (settings.work_dir / TELOS_FILE).is_file():
        return ""
    return _room_setup(worktree_setup(settings.work_dir))


def _room_setup(setup: str) -> str:
    """A setup that takes its files from the work dir says nothing new: these folders are lent."""
    return "" if "LOGOS_ROOT" in setup else setup
