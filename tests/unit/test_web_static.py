"""Static files of the page: what is vendored is as it was published, and nothing of a page is inside its HTML."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import logos.web

WEB = Path(logos.web.__file__).parent
VENDOR = WEB / "static" / "vendor" / "htmx"
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))


def test_vendored_files_are_unchanged():
    told = dict(re.findall(r"^\| (\S+\.js) \| \S+ \| ([0-9a-f]{64}) \|$", (VENDOR / "README.md").read_text(), re.M))
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in VENDOR.glob("*.js")}
    assert found == told
    assert (VENDOR / "LICENSE").is_file()


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_has_a_script_a_style_or_an_order_for_htmx_in_it(path: Path):
    text = path.read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=|\shx-|javascript:", text)
    assert not re.search(r"(src|href)=\"(https?:)?//", text)
    assert "|safe" not in text


@pytest.mark.parametrize("path", sorted((WEB / "static").glob("*.js")), ids=lambda path: path.name)
def test_no_module_writes_html_or_evaluates_text(path: Path):
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", path.read_text()
    )
