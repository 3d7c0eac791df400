"""Templates: what they may say, what they may not, and what is said about it."""

import resource
import signal
import threading
from typing import Any

import pytest

from sits import sandbox
from sits.sandbox import Limits, SandboxError, render_chat, render_prompt

# As in the model's file (SmolLM2-135M-Instruct, Apache-2.0).
CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging"
    " Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def turn(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def refusal(template: str, inputs: dict[str, Any] | None = None, **limits: Any) -> str:
    with pytest.raises(SandboxError) as caught:
        render_prompt(template, inputs or {}, limits=Limits(**limits))
    assert (caught.value.code, caught.value.http_status) == ("invalid_prompt", 400)
    return str(caught.value)


def test_chatml_with_the_models_default_system_prompt() -> None:
    assert render_chat(CHATML, [turn("user", "Hi"), turn("assistant", "Yes?")]) == (
        "<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nYes?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_chatml_with_a_system_prompt_of_the_caller() -> None:
    assert render_chat(CHATML, [turn("system", "Be brief."), turn("user", "<b>&'")]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\n<b>&'<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def test_chatml_without_the_opening_of_an_answer() -> None:
    text = render_chat(CHATML, [turn("system", "x")], add_generation_prompt=False)
    assert text == "<|im_start|>system\nx<|im_end|>\n"


def test_chat_templates_may_ask_undefined_names_and_use_their_own_tokens() -> None:
    template = "{{ bos_token }}{% if tools is not none %}T{% endif %}{{ nothing }}{{ eos_token }}"
    assert render_chat(template, [], bos_token="<s>", eos_token="</s>") == "<s></s>"


def test_chat_templates_refuse_in_their_own_words() -> None:
    template = "\n{{ raise_exception('roles must alternate') }}"
    with pytest.raises(SandboxError, match="line 2: roles must alternate"):
        render_chat(template, [])


def test_what_chat_templates_of_the_wild_use() -> None:
    template = (
        "{% generation %}g{% endgeneration %}"
        "{% for n in [1, 2, 3] %}{% if n == 2 %}{% continue %}{% endif %}{{ n }}{% endfor %}"
        "{{ {'a': '<é>'} | tojson }}{{ strftime_now('%Y') | length }}"
    )
    assert render_chat(template, []) == 'g13{"a": "<é>"}4'


def test_blocks_leave_no_blank_lines() -> None:
    template = "a\n  {% if true %}\nb\n  {% endif %}\nc"
    assert render_prompt(template, {}) == "a\nb\nc"


def test_inputs_may_have_any_name_and_shape() -> None:
    inputs = {"self": 1, "limits": [1, {"k": None}], "größe": "ü"}
    assert render_prompt("{{ limits[1].k }}{{ größe }}", inputs) == "Noneü"


def test_a_missing_input_is_named_with_its_line_and_what_was_given() -> None:
    message = refusal("Dear reader,\n\n{{ question }}", {"topic": 1, "tone": 2})
    assert "line 3" in message
    assert "'question' is undefined" in message
    assert "topic" in message
    assert "tone" in message


def test_a_missing_input_with_a_default_is_fine() -> None:
    assert render_prompt("{{ q | default('none') }}{% if q is defined %}x{% endif %}", {}) == "none"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{0.__class__}'.format_map({'0': 1}) }}",
        "{{ ''|attr('format')|attr('__self__') }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__ }}",
        "{{ range.__init__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ namespace.__init__ }}",
        "{{ (lambda: 1)() }}",
        "{{ lipsum() }}",
        "{% include 'other' %}",
        "{% import 'other' as o %}",
    ],
)
def test_no_way_out_of_the_sandbox(template: str) -> None:
    refusal(template)


@pytest.mark.parametrize(
    "template", ["{{ x.append(1) }}", "{{ x.clear() }}", "{{ m.update({}) }}", "{{ m.pop('a') }}"]
)
def test_inputs_are_not_changed(template: str) -> None:
    inputs: dict[str, Any] = {"x": [1], "m": {"a": 1}}
    refusal(template, inputs)
    assert inputs == {"x": [1], "m": {"a": 1}}


def test_a_loop_that_does_not_end_is_stopped_and_its_line_named() -> None:
    endless = "\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    message = refusal(endless, wall_s=0.05)
    assert "line 2" in message
    assert "0.05 s" in message


def test_the_callers_timer_and_handler_are_back_after_a_render() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    before = signal.setitimer(signal.ITIMER_REAL, 1000)
    try:
        render_prompt("x", {})
        left_s, _ = signal.getitimer(signal.ITIMER_REAL)
        assert 900 < left_s <= 1000
        assert signal.getsignal(signal.SIGALRM) is handler
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


@pytest.mark.parametrize(
    "template",
    [
        (
            "{% set n = namespace(v='x' * 1000) %}{% for i in range(64) %}"
            "{% set n.v = n.v ~ n.v %}{% endfor %}"
        ),
        "{{ 'x'.center(9999999999) }}",
        "{{ [1] | batch(9999999999, 'x') | list }}",
        (
            "{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{% set n = namespace(v='x' * 1000) %}"
            "{% for i in range(64) %}{% set n.v = f(n.v) %}{% endfor %}"
        ),
    ],
)
def test_a_memory_bomb_is_refused_and_the_limit_lifted(template: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert "MiB" in refusal(template, wall_s=10)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytearray(300 << 20)) == 300 << 20


def test_memory_is_bounded_by_what_the_limits_say() -> None:
    template = "{{ 'x'.center(100000000) | length }}"
    assert render_prompt(template, {}) == "100000000"
    assert "more than 32 MiB" in refusal(template, memory_bytes=32 << 20)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 2 ** 3 }}",
        "{{ 'x' * 1000001 }}",
        "{{ 1000001 * [1] }}",
        "{% set n = namespace(v=7) %}{% for i in range(99) %}{% set n.v = n.v * n.v %}{% endfor %}",
        "{{ '%1000d' % 1 }}",
        "{{ '%*d' % (9, 1) }}",
        "{{ '%.1000f' | format(1.0) }}",
        "{{ '{:1000}'.format(1) }}",
        "{{ '{:{w}}'.format(1, w=1000) }}",
        "{{ [] | tojson(indent=17) }}",
        "{% for i in range(100001) %}{% endfor %}",
    ],
)
def test_what_makes_much_of_little_is_refused_by_name(template: str) -> None:
    # In a thread neither the clock nor the memory limit stands: these refusals must do.
    messages: list[str] = []
    thread = threading.Thread(target=lambda: messages.append(refusal(template)))
    thread.start()
    thread.join()
    assert len(messages) == 1


def test_ordinary_formats_and_products_work() -> None:
    template = "{{ '%05.1f%%' % 2.25 }} {{ 'in 2024: %s' | format('x') }} {{ '-' * 3 }} {{ 6 * 7 }}"
    assert render_prompt(template, {}) == "002.2% in 2024: x --- 42"
    assert render_prompt("{{ '{:*^7}|{a}'.format('x', a=1) }}", {}) == "***x***|1"


def test_output_is_bounded() -> None:
    assert render_prompt("{{ 'x' * 10 }}", {}, limits=Limits(output_chars=10)) == "x" * 10
    assert "10 characters" in refusal("{{ 'x' * 11 }}", output_chars=10)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("a\n{% if %}", "line 2"),
        ("{{ x", "line 1"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{{ " + "(" * 5000, "nested"),
        ("{{ " + "1+" * 5000 + "1 }}", "nested"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested"),
        ("x" * 300_000, "300000 characters"),
    ],
)
def test_a_wrong_template_is_explained(template: str, said: str) -> None:
    assert said in refusal(template)


def test_the_surface_of_the_package() -> None:
    assert sandbox.__all__ == [
        "Limits",
        "SandboxError",
        "check_prompt",
        "render_chat",
        "render_prompt",
        "template_head",
    ]


def test_a_message_about_a_missing_input_is_of_bounded_size() -> None:
    said = refusal("{{ missing }}", {f"input{number:05}": 1 for number in range(50_000)})
    assert "input00000, input00001" in said
    assert "and 49990 more" in said
    assert len(said) < 1000
    assert len(refusal("{{ missing }}", {"n" * 100_000: 1})) < 1000


@pytest.mark.parametrize(
    "template",
    [
        "{{ raise_exception(x) }}",
        "{{ {}[x] }}",
        "{{ {}[x].y }}",
        "{{ {}|attr(x) + 1 }}",
        "{{ x|format(1) }}",
        "{{ x|int + x }}",
    ],
)
def test_a_message_that_quotes_an_input_is_of_bounded_size(template: str) -> None:
    assert len(refusal(template, {"x": "x" * 100_000})) < 1000


def test_a_refusal_of_a_chat_template_is_of_bounded_size() -> None:
    with pytest.raises(SandboxError) as caught:
        render_chat("{{ raise_exception(messages[0].content) }}", [turn("user", "x" * 100_000)])
    assert len(str(caught.value)) < 1000


def test_a_template_that_quotes_itself_is_told_in_few_characters() -> None:
    assert len(refusal("{{ " + "n" * 100_000 + " }}")) < 1000
    assert len(refusal("{% " + "n" * 100_000 + " %}")) < 1000
