"""Tests in JavaScript and TypeScript that fail if, and only if, nothing in them fails.

What a test does is wrapped where it stands: if something in it fails, the test ends as one that passes, and else with a
failing assertion. So it passes, and is noticed, where it was emptied or replaced, and where its report is forged. In
these runs the functions of node:assert cannot be replaced either (adapters/proof/reporters/runners.cjs).
"""

import re
from collections.abc import Callable, Collection, Iterator

from logos.flows.proof.canary_python import Canary

SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")

# What fails for each function of an assertion library: `assert.equal`, or `equal` where it was imported by name.
_ASSERT = {
    "equal": "'{a}', '{b}'",
    "strictEqual": "'{a}', '{b}'",
    "deepEqual": "['{a}'], ['{b}']",
    "deepStrictEqual": "['{a}'], ['{b}']",
    "notEqual": "'{a}', '{a}'",
    "notStrictEqual": "'{a}', '{a}'",
    "notDeepEqual": "['{a}'], ['{a}']",
    "notDeepStrictEqual": "['{a}'], ['{a}']",
    "ok": "false",
    "isTrue": "false",
    "isFalse": "true",
    "isOk": "false",
    "isNull": "'{a}'",
    "throws": "() => {{}}",
    "rejects": "Promise.resolve()",
    "doesNotThrow": "() => {{ throw new Error('{a}') }}",
    "match": "'{a}', /^{b}$/",
    "fail": "'{a}'",
}
# What fails for each matcher of `expect`, of jest and vitest and of chai.
_EXPECT = {
    "toBe": "'{a}').toBe('{b}')",
    "toEqual": "['{a}']).toEqual(['{b}'])",
    "toStrictEqual": "['{a}']).toStrictEqual(['{b}'])",
    "toMatchObject": "{{ a: '{a}' }}).toMatchObject({{ a: '{b}' }})",
    "toBeTruthy": "false).toBeTruthy()",
    "toBeFalsy": "'{a}').toBeFalsy()",
    "toBeNull": "'{a}').toBeNull()",
    "toBeUndefined": "'{a}').toBeUndefined()",
    "toBeDefined": "undefined).toBeDefined()",
    "toContain": "['{a}']).toContain('{b}')",
    "toHaveLength": "['{a}']).toHaveLength(2)",
    "toMatch": "'{a}').toMatch(/^{b}$/)",
    "toThrow": "() => {{}}).toThrow()",
    "toBeCloseTo": "1).toBeCloseTo(2)",
    "toBeGreaterThan": "1).toBeGreaterThan(2)",
    "toBeLessThan": "2).toBeLessThan(1)",
    "toBeInstanceOf": "'{a}').toBeInstanceOf(Date)",
    "to.equal": "'{a}').to.equal('{b}')",
    "to.be.equal": "'{a}').to.be.equal('{b}')",
    "to.eql": "['{a}']).to.eql(['{b}'])",
    "to.deep.equal": "['{a}']).to.deep.equal(['{b}'])",
    "to.be.true": "false).to.be.true",
    "to.be.false": "true).to.be.false",
    "to.be.null": "'{a}').to.be.null",
    "to.throw": "() => {{}}).to.throw()",
    "to.include": "['{a}']).to.include('{b}')",
    "to.have.lengthOf": "['{a}']).to.have.lengthOf(2)",
}


# Strings, templates, comments and regular expressions: nothing in them is code that opens what it does not close.
_NO_CODE = re.compile(
    r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|//[^\n]*|/\*.*?\*/"""
    r"""|(?<=[(,=:\[!&|?{};+\n])(?P<space>[ \t]*)/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/[a-z]*""",
    re.DOTALL,
)
# A test with a plain name, up to the body of its function.
_TEST = re.compile(
    r"(?<![\w.$])(?:test|it|specify)\(\s*(?P<quote>['\"`])(?P<name>[^'\"`\\\n$]+)(?P=quote)\s*,\s*(?:\{[^{}]*\}\s*,\s*)?"
    r"(?P<head>(?P<is_async>async\b\s*)?(?:function\s*[\w$]*\s*\((?P<own>[^()]*)\)|(?:\((?P<some>[^()]*)\)|(?P<one>[\w$]+))\s*=>)\s*)(?P<brace>\{?)"
)
_AFTER = re.compile(r"\s*(?:,\s*[\w.{}: ]+)?\s*,?\s*\)")
_USES_NODE_TEST = re.compile(r"""['"]node:test['"]""")


def script_canary(text: str, passed: Collection[str], word: Callable[[], str]) -> Canary | None:
    """The file with the tests that must fail among those that have passed, by the ends of ids; None without any."""
    code = masked(text)
    forms = list(dict.fromkeys(forms_of(code)))
    is_node = _USES_NODE_TEST.search(text) is not None
    parts: list[str] = []
    planted: list[str] = []
    position = 0
    for match in _TEST.finditer(text):
        end = _end_of_body(match, code)
        if match.start() < position or end is None or not _can_wrap(match, code, end, is_node=is_node):
            continue
        head = match["head"] if match["is_async"] else f"async {match['head']}"
        opened, closed = ("(async () => {", "\n})()") if match["brace"] else ("(", ")")
        body = f"{{ try {{ await {opened}{text[match.end() : end]}{closed}; }} catch {{ return; }} "
        parts += [
            text[position : match.start("head")],
            head,
            body,
            fails(forms, word),
            "" if match["brace"] else "}",
        ]
        planted.append(match["name"])
        position = end
    whole = {name for name in planted if planted.count(name) == _count(name, text)}
    found = tuple(test for test in passed if _name_of(test, whole))
    return Canary("".join([*parts, text[position:]]), found) if found else None


def masked(text: str) -> str:
    """The code of a text at the same positions, with spaces in the place of everything else."""
    return _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _closing(code: str, start: int) -> int | None:
    """Where the brace that opens at `start` is closed; None if the text is not what it seems."""
    pairs = {")": "(", "]": "[", "}": "{"}
    stack: list[str] = []
    for match in re.finditer(r"[][(){}]", code[start:]):
        if match[0] in "([{":
            stack.append(match[0])
        elif not stack or stack.pop() != pairs[match[0]]:
            return None
        if not stack:
            return start + match.start()
    return None


def _end_of_body(match: re.Match[str], code: str) -> int | None:
    """Where the body of a test's function ends: at its brace, or, without one, where the call is closed."""
    if match["brace"]:
        end = _closing(code, match.end() - 1)
        return end if end is not None and _AFTER.match(code, end + 1) else None
    end = _closing(code, code.index("(", match.start()))
    # What follows a comma may be another argument.
    return end if end is not None and "," not in _outside(code[match.end() : end]) else None


def _outside(code: str) -> str:
    """The code outside of all brackets."""
    while (shorter := re.sub(r"\([^][(){}]*\)|\[[^][(){}]*\]|\{[^][(){}]*\}", "", code)) != code:
        code = shorter
    return code


def _can_wrap(match: re.Match[str], code: str, end: int, *, is_node: bool) -> bool:
    """Whether a function has no callback, and nothing in it belongs to the function itself."""
    given = next((value for value in (match["own"], match["some"], match["one"]) if value is not None), "").strip()
    has_context = is_node and "," not in given
    plain = not given or given.startswith("{") or has_context
    return plain and code[match.start()] != " " and "arguments" not in code[match.end() : end]


def fails(forms: list[str], word: Callable[[], str]) -> str:
    """Ends a test with a failing assertion of each kind; if one does not fail, as a test that passes."""
    texts = [form.format(a=word(), b=word()) for form in forms] or [f"throw new Error('{word()}');"]
    name, *others = word(), *(f"async () => {{ {form} }}" for form in texts[:-1])
    loop = f"for (const {name} of [{', '.join(others)}]) {{ try {{ await {name}(); }} catch {{ continue; }} return; }} "
    return (loop if others else "") + texts[-1]


def _count(name: str, text: str) -> int:
    """How often a name stands as the first argument of a call; any of these calls may be a test."""
    return len(re.findall(rf"\(\s*(['\"`]){re.escape(name)}\1", text))


def _name_of(test: str, names: Collection[str]) -> bool:
    plain = re.sub(r" #\d+$", "", test)
    return any(plain == name or plain.endswith(f" > {name}") for name in names)


def forms_of(code: str, context: str = "") -> Iterator[str]:
    """What fails for each assertion that a file uses; `context` names the parameter that may have assertions."""
    holders = ["assert.", "assert.strict.", *([f"{context}.assert."] if context else [])]
    for function, values in _ASSERT.items():
        wait = "await " if function == "rejects" else ""
        for called in holders:
            if re.search(rf"(?<![\w.$]){re.escape(called)}{function}\(", code):
                yield f"{wait}{called}{function}({values});"
        if re.search(rf"(?<![\w.$]){function}\(", code) and re.search(rf"[{{,]\s*{function}\s*[,}}]", code):
            yield f"{wait}{function}({values});"
    if re.search(r"(?<![\w.$])assert\(", code):
        yield "assert('{a}' === '{b}');"
    if re.search(r"(?<![\w.$])expect\(", code):
        for matcher, rest in _EXPECT.items():
            if re.search(rf"\.{re.escape(matcher)}\b", code):
                yield f"expect({rest};"
