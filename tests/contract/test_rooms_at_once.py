"""Provers that start and end at the same time: none takes another's rooms away."""

from __future__ import annotations

import threading
from pathlib import Path

from logos.adapters.proof.rooms import Rooms

PROVERS, ROUNDS = 6, 15


def test_provers_that_start_at_once_keep_their_rooms_and_leave_none(tmp_path: Path) -> None:
    root, wrong = tmp_path / "rooms", list[str]()

    def prove_and_end() -> None:
        for _ in range(ROUNDS):
            try:
                rooms = Rooms(root)
                with rooms.open() as room:
                    if not all(folder.is_dir() for folder in (room.tree, room.commands)):
                        wrong.append("a room was taken away")
                    if not (rooms.folder / "lock").exists():
                        wrong.append("nothing tells others that the prover lives")
                rooms.close()
            except Exception as error:  # noqa: BLE001 - raised in a thread, where nobody sees it
                wrong.append(repr(error))

    provers = [threading.Thread(target=prove_and_end) for _ in range(PROVERS)]
    for prover in provers:
        prover.start()
    for prover in provers:
        prover.join()
    assert wrong == []
    assert [*root.iterdir()] == []
