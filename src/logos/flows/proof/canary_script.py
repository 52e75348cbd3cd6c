"""Planted tests in JavaScript and TypeScript: for node --test, mocha, jest and vitest."""

import re
from collections.abc import Callable, Iterator, Sequence
from posixpath import basename, dirname, splitext

from logos.flows.proof.canary_python import Canary

SCRIPTS = (".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx")

# `import … from '…'`, `import '…'`, and `const … = require('…')` with what follows on its line, at the start of a line.
_IMPORT = re.compile(
    r"^import\s+(?:type\s+)?[\w*{}\s,$]+?\s+from\s*(['\"])[^'\"\n]+\1[^\n]*$"
    r"|^import\s*(['\"])[^'\"\n]+\2[^\n]*$"
    r"|^(?:const|let|var)\s+(?:[\w$]+|\{[^{}]*\})\s*=\s*require\(\s*(['\"])[^'\"\n]+\3\s*\)[^\n]*$",
    re.MULTILINE,
)
_COMMENTS = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)
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


def script_canary(path: str, text: str, changed: Sequence[str], name: Callable[[str], str]) -> Canary | None:
    """The imports of a test file, and a failing test for each kind of assertion in it; None without tests."""
    code = _COMMENTS.sub("", text)
    function = next((word for word in ("test", "it") if re.search(rf"(?<![\w.$]){word}(?:\.\w+)*\(", code)), None)
    forms = list(dict.fromkeys(_forms(code)))
    if function is None or not forms:
        return None
    lines = [match[0] for match in _IMPORT.finditer(text)]
    loads = list(_loads(path, changed, "require(" in code and not re.search(r"^import\s", code, re.MULTILINE)))
    tests: list[str] = []
    for form in forms:
        test = name(path)
        body = [*loads, form.format(a=name("a"), b=name("b"))]
        lines += ["", f"{function}('{test}', async () => {{", *(f"  {line}" for line in body), "});"]
        tests.append(test)
    return Canary("\n".join(lines) + "\n", tuple(tests))


def _forms(code: str) -> Iterator[str]:
    for function, values in _ASSERT.items():
        wait = "await " if function == "rejects" else ""
        for called in ("assert.", "assert.strict.", "t.assert."):
            if re.search(rf"(?<![\w.$]){re.escape(called)}{function}\(", code) and called != "t.assert.":
                yield f"{wait}{called}{function}({values});"
        if re.search(rf"(?<![\w.$]){function}\(", code) and re.search(rf"[{{,]\s*{function}\s*[,}}]", code):
            yield f"{wait}{function}({values});"
    if re.search(r"(?<![\w.$])assert\(", code):
        yield "assert('{a}' === '{b}');"
    if re.search(r"(?<![\w.$])expect\(", code):
        for matcher, rest in _EXPECT.items():
            if re.search(rf"\.{re.escape(matcher)}\b", code):
                yield f"expect({rest};"


def _loads(path: str, changed: Sequence[str], is_common: bool) -> Iterator[str]:
    """Imports what the change touched. A module that cannot be imported must not fail the planted test."""
    for source in changed[:20]:
        stem, end = splitext(source)
        if end not in SCRIPTS or source.endswith(".d.ts") or basename(stem) in ("cli", "main", "bin", "server"):
            continue
        target = _relative(dirname(path), source).replace("\\", "\\\\").replace("'", "\\'")
        yield f"try {{ {'require' if is_common else 'await import'}('{target}'); }} catch {{}}"


def _relative(folder: str, target: str) -> str:
    """A path as an import in a file of `folder` writes it."""
    here, there = [part for part in folder.split("/") if part], target.split("/")
    while here and there and here[0] == there[0]:
        del here[0], there[0]
    return "/".join([".."] * len(here) + there if here else [".", *there])
