"""Tests counted from the output of runners that have no report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logos.adapters.proof.outputs import count_output
from logos.domain.proof import CountedTests

CARGO = """\
   Compiling calc v0.1.0 (/w)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 3.67s
     Running unittests src/lib.rs (target/debug/deps/calc-c6626fb655a8d231)

running 4 tests
test tests::later ... ignored
test tests::ok ... ok
test tests::panics - should panic ... ok
test tests::reason ... ignored, why not

test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s

     Running tests/it.rs (target/debug/deps/it-b462ec70d69dbcd3)

running 2 tests
test good ... ok
test bad ... FAILED

failures:

---- bad stdout ----
thread 'bad' panicked at tests/it.rs:2:20:

failures:
    bad

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.64s

   Doc-tests calc

running 1 test
test src/lib.rs - add (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.72s
"""
GO = """\
=== RUN   TestAdd
=== RUN   TestAdd/one
=== RUN   TestAdd/two
    calc_test.go:9: got 3
--- FAIL: TestAdd (0.00s)
    --- PASS: TestAdd/one (0.00s)
    --- FAIL: TestAdd/two (0.00s)
=== RUN   TestSkip
    calc_test.go:14: no
--- SKIP: TestSkip (0.00s)
FAIL
FAIL\texample.com/calc\t0.002s
=== RUN   TestOther
--- PASS: TestOther (0.00s)
PASS
ok  \texample.com/calc/other\t0.001s
?   \texample.com/calc/cmd\t[no test files]
FAIL
"""


def test_cargo_s_tests_have_the_file_of_their_crate() -> None:
    assert count_output(CARGO) == CountedTests(
        "cargo",
        passed=("src/lib.rs::add", "src/lib.rs::tests::ok", "src/lib.rs::tests::panics", "tests/it.rs::good"),
        failed=("tests/it.rs::bad",),
        skipped=("src/lib.rs::tests::later", "src/lib.rs::tests::reason"),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("test good ... ok\n", "test good ... ok\ntest forged ... ok\n"),
        ("test bad ... FAILED\n", "test bad ... ok\n"),
        ("test bad ... FAILED\n", ""),
        (
            "test bad ... FAILED\n",
            "running 1 test\ntest x ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored;\ntest bad ... FAILED\n",
        ),
        ("running 2 tests\n", ""),
        (CARGO[CARGO.index("failures:") :], ""),
    ],
)
def test_output_of_cargo_that_does_not_agree_with_itself_has_a_failed_test(old: str, new: str) -> None:
    found = count_output(CARGO.replace(old, new))
    assert found is not None
    assert any(test.startswith("::(") for test in found.failed)


def test_the_same_test_of_two_crates_is_two_tests() -> None:
    block = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n"
    assert count_output(block + block) == CountedTests("cargo", passed=("::a", "::a #2"))


def test_go_s_tests_have_their_package() -> None:
    assert count_output(GO) == CountedTests(
        "go",
        passed=("::example.com/calc.TestAdd/one", "::example.com/calc/other.TestOther"),
        failed=("::example.com/calc.TestAdd", "::example.com/calc.TestAdd/two"),
        skipped=("::example.com/calc.TestSkip",),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ok  \texample.com/calc/other\t0.001s\n", ""),
        ("--- PASS: TestOther (0.00s)\n", ""),
        ("=== RUN   TestOther\n", ""),
    ],
)
def test_output_of_go_that_does_not_agree_with_itself_has_a_failed_test(old: str, new: str) -> None:
    found = count_output(GO.replace(old, new).replace("--- FAIL", "--- PASS").replace("FAIL\t", "ok  \t"))
    assert found is not None
    assert found.failed


def test_a_package_that_does_not_build_is_a_failed_test() -> None:
    text = "# example.com/calc [example.com/calc.test]\n./calc_test.go:8:2: undefined: x\nFAIL\texample.com/calc [build failed]\n"
    found = count_output(text + GO)
    assert found is not None
    assert "::example.com/calc.(did not run)" in found.failed


def test_other_output_counts_nothing() -> None:
    assert count_output("3 passed\n") is None


@given(st.lists(st.sampled_from([*CARGO.splitlines(), *GO.splitlines()]), max_size=40))
def test_no_order_of_lines_is_an_error(lines: list[str]) -> None:
    count_output("\n".join(lines))
