from pathlib import Path

from check_size import Limits, apply_exceptions, check_tree, find_offences

SMALL = Limits(file_lines=6, function_lines=3, parameters=2)


def test_accepts_what_is_exactly_at_the_limits() -> None:
    source = "def f(a, b):\n    x = a\n    return x + b\n\n\nY = 1\n"

    assert find_offences("m.py", source, SMALL) == []


def test_reports_a_file_that_is_too_long_with_its_place_and_what_to_do() -> None:
    (offence,) = find_offences("m.py", "X = 1\n" * 7, SMALL)

    assert str(offence) == (
        "m.py:7: file of 7 lines, at most 6: move one of its concerns to a module of its own"
    )


def test_reports_a_function_that_is_too_long_with_its_line() -> None:
    source = "X = 1\n\nasync def f():\n    a = 1\n    b = a\n    return b\n"

    (offence,) = find_offences("m.py", source, SMALL)

    assert str(offence).startswith("m.py:3: f has 4 lines, at most 3:")


def test_counts_keyword_only_and_starred_parameters_but_not_self() -> None:
    source = (
        "class A:\n"
        "    def f(self, a, *, b): ...\n"
        "    def g(self, a, *b, **c): ...\n"
        "    def h(self, *, a, b, c): ...\n"
    )

    starred, keyword_only = find_offences("m.py", source, SMALL)

    assert str(starred).startswith("m.py:3: A.g has 3 parameters, at most 2:")
    assert str(keyword_only).startswith("m.py:4: A.h has 3 parameters, at most 2:")


def test_does_not_count_cls_but_counts_positional_only() -> None:
    source = "class A:\n    def f(cls, a, /, b): ...\n    def g(cls, a, b, /, c): ...\n"

    assert [offence.key for offence in find_offences("m.py", source, SMALL)] == ["m.py::A.g"]


def test_looks_into_functions_inside_functions() -> None:
    source = "def f():\n    def g(a, b, c): ...\n"

    assert [offence.key for offence in find_offences("m.py", source, SMALL)] == ["m.py::f.g"]


def test_an_exception_lets_an_offence_pass() -> None:
    offences = find_offences("m.py", "def f(a, b, c): ...\n", SMALL)

    assert apply_exceptions(offences, {"m.py::f": "a reason"}) == ([], [])


def test_an_exception_that_nothing_needs_is_reported() -> None:
    assert apply_exceptions([], {"m.py": "a reason"}) == ([], ["m.py"])


def test_house_limits_are_those_of_the_style_guide() -> None:
    assert Limits() == Limits(file_lines=500, function_lines=60, parameters=7)


def test_checks_sources_tests_and_tools(tmp_path: Path) -> None:
    for folder in ("src/sits", "tests/unit", "tools"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "long.py").write_text("X = 1\n" * 501)

    messages = check_tree(tmp_path, {})

    assert [message.partition(":")[0] for message in messages] == [
        "src/sits/long.py",
        "tests/unit/long.py",
        "tools/long.py",
    ]
