"""The artifacts of the analyst: which form they have, and in which folder of the repository they are."""

from enum import StrEnum


class Artifacts(StrEnum):
    """Whose conventions the analyst's artifacts follow."""

    OPENSPEC = "openspec"
    LOGOS = "logos"


FOLDERS = {Artifacts.OPENSPEC: "openspec/", Artifacts.LOGOS: ".logos/"}
# Files below these implement nothing, whichever of them a run uses.
SPECS = tuple(FOLDERS.values())


def changes_folder(artifacts: Artifacts) -> str:
    """Where the one change of a run is, relative to the work dir."""
    return f"{FOLDERS[artifacts]}changes/"
