"""Agents' texts on the page: Markdown, code and patches as HTML that does nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logos.web.marking import LONGEST, highlighted_lines, markdown
from logos.web.patches import patch_of

# Everything that the page may contain of an agent's text.
TAGS = {"p", "pre", "code", "span", "ul", "ol", "li", "h4", "h5", "h6", "em", "strong", "s", "blockquote", "hr", "br"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"class", "tabindex", "start"}
_TAG = re.compile(r"</?([a-zA-Z][^\s>/]*)([^>]*?)\s*/?>")
_ATTRIBUTE = re.compile(r"([^\s=\"]+)(?:=\"[^\"]*\")?")

PATCH = """diff --git a/shop.py b/shop.py
index 1..2 100644
--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,4 @@ def total():
 def total():
-    return 1
+    # <b>two</b>
+    return 2
 # end
diff --git a/old name.txt b/new name.txt
similarity index 90%
rename from old name.txt
rename to new name.txt
diff --git a/empty.py b/empty.py
new file mode 100644
index 000..e69
diff --git a/x.bin b/x.bin
new file mode 100644
GIT binary patch
literal 3
@@ not a hunk @@
"""


def inert(html: str) -> bool:
    return all(
        name in TAGS and {found[1] for found in _ATTRIBUTE.finditer(rest)} <= ATTRIBUTES
        for name, rest in _TAG.findall(html)
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[here](javascript:alert(1))",
        '[here](http://example.org/"onclick="alert(1))',
        "![picture](http://example.org/x.png)",
        "<https://example.org>",
        '```"><script>\nx\n```',
        "```html\n<script>alert(1)</script>\n```",
        "|a|\n|:-:|\n|<b onclick=x>|",
        "1. one\n1. two\n\n> quoted\n\n~~gone~~ **bold** `<i>`",
        "<div hx-get=/start hx-trigger=load>x</div>",
    ],
)
def test_markdown_of_an_agent_does_nothing(text: str):
    assert inert(markdown(text)), markdown(text)


@example("---")
@example("|a|b|\n|-:|:-:|\n|1|2|")
@given(st.text(alphabet=st.sampled_from("<>\"'`~|[]()!#*_-:/\\ \n\tabhjs=x&;1"), max_size=80))
def test_no_text_becomes_a_tag_that_does_something(text: str):
    assert inert(markdown(text)), markdown(text)


def test_an_address_is_shown_as_text():
    assert markdown("[docs](https://example.org/a)") == (
        '<p><span class="address">docs</span> <span class="target">https://example.org/a</span></p>\n'
    )


def test_headings_of_an_agent_are_below_those_of_the_page():
    assert re.findall(r"<h\d", markdown("# one\n## two\n### three")) == ["<h4", "<h5", "<h6"]


def test_control_and_direction_characters_are_seen():
    assert "red \\u202eevil" in markdown("\x1b[31mred\x1b[0m \u202eevil")


def test_a_long_text_is_cut_and_says_so():
    assert "1,000 more characters are not shown here" in markdown("x" * (LONGEST + 1000))


def test_code_is_highlighted_by_classes_over_lines():
    first, second = highlighted_lines('x = """one\ntwo"""', "shop.py")
    assert first.startswith('<span class="n">x</span> <span class="o">=</span> <span class="s2">')
    assert second.startswith('<span class="s2">two</span>')
    assert highlighted_lines("<b>\n", "no-such-kind") == ["&lt;b&gt;", ""]


def test_a_patch_becomes_files_hunks_and_numbered_lines():
    patch = patch_of(PATCH)
    assert [(file.path, file.what, file.added, file.deleted) for file in patch.files] == [
        ("shop.py", "changed", 2, 1),
        ("new name.txt", "renamed", 0, 0),
        ("empty.py", "new", 0, 0),
        ("x.bin", "binary", 0, 0),
    ]
    assert patch.files[1].was == "old name.txt"
    hunk = patch.files[0].hunks[0]
    assert hunk.where == "lines 1 to 4: def total():"
    assert [(line.sign, line.old, line.new) for line in hunk.lines] == [
        (" ", 1, 1),
        ("-", 2, None),
        ("+", None, 2),
        ("+", None, 3),
        (" ", 3, 4),
    ]
    assert "&lt;b&gt;" in hunk.lines[2].code


@pytest.mark.parametrize(
    ("named", "path"),
    [
        (r'"gr\303\274\303\237e.py"', "gr\u00fc\u00dfe.py"),
        (r'"a \"b\" \\ c.py"', 'a "b" \\ c.py'),
        (r'"\342\200\256gpj.exe"', "\\u202egpj.exe"),
        (r'"\377.bin"', "\ufffd.bin"),
        (r'"tab\there.py"', "tab\there.py"),
        ("plain name.py", "plain name.py"),
    ],
)
def test_a_name_that_git_quotes_is_read(named: str, path: str):
    left, right = (f'"{side}/{named[1:]}' if named.startswith('"') else f"{side}/{named}" for side in "ab")
    old, new = (named, '"new-' + named[1:] if named.startswith('"') else f"new-{named}")
    changed = f"diff --git {left} {right}\n--- {left}\n+++ {right}\n@@ -1 +1 @@\n-a\n+b\n"
    empty = f"diff --git {left} {right}\nnew file mode 100644\nindex 0000000..e69de29\n"
    moved = f"diff --git {left} x\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
    files = patch_of(changed + empty + moved).files
    assert [file.path for file in files] == [path, path, f"new-{path}"]
    assert files[2].was == path


def test_deleted_lines_are_beside_what_replaced_them():
    pairs = [(left.old if left else None, right.new if right else None) for left, right in _pairs()]
    assert pairs == [(1, 1), (2, 2), (None, 3), (3, 4)]


def _pairs():
    return patch_of(PATCH).files[0].hunks[0].pairs


@given(st.text(alphabet=st.sampled_from("+- @\\<>&abn\n"), max_size=200))
def test_every_patch_is_shown_somehow(body: str):
    text = f"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n{body}"
    for file in patch_of(text).files:
        for hunk in file.hunks:
            assert len([*hunk.pairs]) <= len(hunk.lines)
