import io

import pytest

from build_progress import BuildProgress, format_duration, parse_percent


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("  [1/193] /usr/bin/gcc -c ggml.c", 0),
        ("[97/193] Building CXX object", 50),
        ("  [193/193] Linking", 100),
        ("  -- Found Threads: TRUE", None),
        ("  warning: array[3/4] is odd", None),
        ("[0/0] nothing to do", None),
    ],
)
def test_reads_the_share_of_done_steps(line: str, percent: int | None) -> None:
    assert parse_percent(line) == percent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (40, "40 s"), (89, "89 s"), (90, "2 min"), (280, "5 min")],
)
def test_says_durations_as_people_do(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_writes_a_plain_line_every_ten_percent_when_not_on_a_terminal() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = BuildProgress(stream, clock)

    for step in range(1, 26):
        clock.now_s = step * 4.0
        progress.feed(f"[{step}/100] cc")
    progress.close()

    # 10 of 100 steps in 40 s leave 90 steps of 4 s each: 360 s.
    assert stream.getvalue().splitlines() == [
        "sits:   10% built, about 6 min left",
        "sits:   20% built, about 5 min left",
    ]


def test_draws_a_bar_over_itself_on_a_terminal() -> None:
    stream, clock = Terminal(), Clock()
    progress = BuildProgress(stream, clock)

    clock.now_s = 10.0
    progress.feed("[50/100] cc")
    progress.feed("other output")
    progress.close()

    assert stream.getvalue() == "\r  [############............]  50%  about 10 s left    \n"
