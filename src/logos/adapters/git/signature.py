"""How the commits of a build are signed: who made them, and what their first line says."""

import re
from dataclasses import dataclass

from logos.adapters.git.command import Git


@dataclass(frozen=True, slots=True)
class Signature:
    """Author (name and address; None: as git is set up) and subject of the commits of a build."""

    author: tuple[str, str] | None = ("Logos", "logos@localhost")
    subject: str = "{what}"

    def sign(self, git: Git) -> Git:
        return git.as_user() if self.author is None else git.by(*self.author)

    def line(self, what: str, feature: str, run: str) -> str:
        """The subject, filled in; one line, and never empty."""
        known = {"{what}": what, "{feature}": feature, "{run}": run}
        text = re.sub("|".join(map(re.escape, known)), lambda found: known[found[0]], self.subject)
        return " ".join(text.split()) or what
