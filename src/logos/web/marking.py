"""Agents' texts as HTML: Markdown, source code and terminal output, none of which can do anything in a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import (
    get_lexer_by_name,  # pyright: ignore[reportUnknownVariableType]
    get_lexer_for_filename,  # pyright: ignore[reportUnknownVariableType]
)
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

from logos.views.redact import clean
from logos.views.text import number

# A longer text is cut on the page, as plain text below: a browser must stay usable whatever an agent writes.
LONGEST = 200_000
LONGEST_CODE = 60_000
# Headings of a text are below those of the page.
_HEADING = {"h1": "h4", "h2": "h5", "h3": "h6", "h4": "h6", "h5": "h6", "h6": "h6"}


def cut_text(text: str, longest: int = LONGEST) -> tuple[str, str]:
    """A text without control sequences and secrets, cut where it is too long; and what was left out, in words."""
    # Cleaning costs time as well, and a text of 50 MB need not be cleaned whole.
    kept = clean(text[:longest])
    left = len(text) - longest
    return kept, f"{number(left)} more characters are not shown here" if left > 0 else ""


# -- Markdown


def _inert(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
    """An agent's link is text: the address is shown, and nothing can be clicked."""
    return '<span class="address">'


def _inert_end(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
    opening = next((token for token in reversed(tokens[:at]) if token.type == "link_open"), None)
    target = str(opening.attrGet("href") or "") if opening is not None else ""
    return f'</span> <span class="target">{escape(target)}</span>'


def _picture(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
    token = tokens[at]
    return f'<span class="address">[{escape(token.content)}] {escape(str(token.attrGet("src") or ""))}</span>'


def _heading(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
    tag = _HEADING[tokens[at].tag]
    return f'<{tag} class="from-{tokens[at].tag}">' if tokens[at].nesting == 1 else f"</{tag}>"


def _fence(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
    language = tokens[at].info.split(maxsplit=1)[0] if tokens[at].info.strip() else ""
    return f'<pre class="code" tabindex="0"><code>{highlighted(tokens[at].content, language)}</code></pre>\n'


def _cell(tag: str) -> Callable[..., str]:
    # Markdown aligns cells by a style attribute, which the page's policy refuses.
    def opened(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:  # noqa: ARG001
        style = str(tokens[at].attrGet("style") or "")
        return f'<{tag} class="{style.removeprefix("text-align:")}">' if style else f"<{tag}>"

    return opened


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"])
    # Every address is shown as text, so none need be left as it was written.
    rules = {
        "link_open": _inert,
        "link_close": _inert_end,
        "image": _picture,
        "heading_open": _heading,
        "heading_close": _heading,
        "fence": _fence,
        "code_block": _fence,
        "td_open": _cell("td"),
        "th_open": _cell("th"),
    }
    for name, rule in rules.items():
        parser.add_render_rule(name, rule)
    return parser


@lru_cache(maxsize=128)
def markdown(text: str) -> Markup:
    """A text as HTML. What it contains of HTML is shown, not done; links and pictures are addresses."""
    kept, left = cut_text(text)
    note = Markup('<p class="cut">{}</p>').format(left) if left else Markup()
    return Markup(_parser().render(kept)) + note


# -- source code


@lru_cache(maxsize=256)
def _named(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=256)
def _of_file(path: str) -> Lexer | None:
    try:
        return get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def highlighted(text: str, language: str) -> Markup:
    """Source code of a language as HTML; plain where the language is not known."""
    return Markup("\n").join(_lines(text, _named(language) if language else None))


def highlighted_lines(text: str, path: str) -> list[Markup]:
    """The lines of a file, highlighted by its name."""
    return _lines(text, _of_file(path))


def _class_of(kind: Any) -> str:
    """The class of a kind of token, or of the nearest kind that has one."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    return STANDARD_TYPES[kind]


def _lines(text: str, lexer: Lexer | None) -> list[Markup]:
    if lexer is None or len(text) > LONGEST_CODE:
        return [escape(line) for line in text.split("\n")]
    lines = [Markup()]
    for kind, value in lexer.get_tokens(text):
        found = _class_of(kind)
        for place, part in enumerate(value.split("\n")):
            if place:
                lines.append(Markup())
            if part:
                lines[-1] += Markup('<span class="{}">{}</span>').format(found, part) if found else escape(part)
    return lines
