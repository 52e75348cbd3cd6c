"""Draws docs/pictures: what a person sees of a run and of a build, exported by rich from real ones (the demo's)."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from logos.app.demo import prepare_demo, run_demo
from logos.app.start import read_run
from logos.cli import demo
from logos.cli.output import console as show
from logos.cli.output.live import LiveView
from logos.domain.events import Recorded, TurnAnswered, TurnSent
from logos.domain.ledger import Ledger
from logos.views.run import RunView, State

TARGET = Path(__file__).parents[1] / "docs" / "pictures"
WIDTH = 88
HEIGHT = 26


@dataclass(frozen=True)
class Picture:
    """A demo, the moment its live view is drawn, and what is drawn below it at the end."""

    name: str
    title: str
    levels: bool
    moment: tuple[type, str]
    ending: Callable[[Console, RunView], None]


def put_settled(canvas: Console, story: RunView) -> None:
    for settled in story.build.settled if story.build is not None else ():
        demo.put_settled(canvas, settled)


PICTURES = (
    # The proof has caught a weakened test, and the programmer repairs the code.
    Picture(
        "run",
        "logos demo",
        False,
        (TurnAnswered, "r2.programmer.c1"),
        show.put_timeline,
    ),
    # A journey has failed, and three levels say what must hold.
    Picture(
        "build",
        "logos demo --levels",
        True,
        (TurnSent, "s2.q2.L6.position"),
        put_settled,
    ),
)


class Watched(LiveView):
    """The live view, drawn once on a canvas besides."""

    def __init__(self, canvas: Console, moment: tuple[type, str]) -> None:
        super().__init__(Console(file=io.StringIO(), force_terminal=True, width=WIDTH + 4, height=HEIGHT))
        self._canvas = canvas
        self._moment = moment

    def watch(self, record: Recorded, state: State, ledger: Ledger) -> None:
        super().watch(record, state, ledger)
        if (type(record.event), getattr(record.event, "turn", "")) == self._moment:
            self._canvas.print(self.frame())


def draw(picture: Picture) -> Path:
    canvas = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with (
        tempfile.TemporaryDirectory(prefix="logos-picture-") as folder,
        Watched(canvas, picture.moment) as view,
    ):
        place = Path(folder).resolve()
        settings = prepare_demo(place, levels=picture.levels)
        result = run_demo(settings, levels=picture.levels, watchers=[view.watch], tell=view.tell)
        story = read_run(place, result.run)
    canvas.print()
    picture.ending(canvas, story)
    canvas.print()
    show.put_summary(canvas, story)
    TARGET.mkdir(parents=True, exist_ok=True)
    # Without fonts from elsewhere: the picture must load nothing.
    drawn = re.sub(r"\s*@font-face \{.*?\}", "", canvas.export_svg(title=picture.title), flags=re.DOTALL)
    target = TARGET / f"{picture.name}.svg"
    target.write_text(drawn, encoding="utf-8")
    return target


def main() -> None:
    os.environ["COLUMNS"] = str(WIDTH + 4)
    for picture in PICTURES:
        print(f"drawn: {draw(picture)}")


if __name__ == "__main__":
    main()
