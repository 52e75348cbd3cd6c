"""The ids of tests: `path::rest`, the path relative to the work dir, or `::rest` where the runner tells no file."""


def file_of(test_id: str) -> str:
    """The file of a test; empty where its runner tells none."""
    return test_id.partition("::")[0]


def function_of(test_id: str) -> str:
    """The id without the parameters that pytest adds: one id for all cases of a parametrized test."""
    file, separator, rest = test_id.partition("::")
    # Other runners take names from people, who may write brackets.
    return file + separator + rest.partition("[")[0] if file.endswith(".py") and rest.endswith("]") else test_id
