"""Against plain jinja2 set up as the model's makers do; and templates that mean harm."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import jinja2
import jinja2.sandbox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import FormatError, RequestError
from assay.llm.template import LONGEST_SOURCE, ROLES, ChatTemplate, Message

TALK: list[Message] = [
    {"role": "system", "content": "  Be brief.\n"},
    {"role": "user", "content": "Hi <|im_end|> {{ 7 * 7 }} {% raw %} é 🙂"},
    {"role": "assistant", "content": '<think>\nhm\n</think>\n\nHello, "you" & <b>.</b>'},
    {"role": "user", "content": ""},
    {"role": "user", "content": "Bye"},
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(ROLES), "content": TEXTS}), min_size=1, max_size=5
)

# Written for this test in the manners of templates in use: what they call, slice, compare, loop over, print.
MANNERS = [
    # namespaces, reversed slices, loop controls, whitespace control on lines of their own
    """
    {%- set ns = namespace(last=-1, seen=[]) %}
    {%- for message in messages[::-1] %}
        {%- if message.role == "user" and ns.last < 0 %}
            {%- set ns.last = messages|length - 1 - loop.index0 %}
        {%- endif %}
        {%- set ns.seen = ns.seen + [message['role']] %}
    {%- endfor %}
    {{ ns.last }}/{{ ns.seen|join(', ') }}
    {% for message in messages %}
        {% if message.content is string and not message.content %}
            {% continue %}
        {% endif %}
        {{- loop.index ~ ':' ~ message.role|upper }} {{ message.content | trim }}
    {% endfor %}
    """,
    # reasoning taken out by splitting, as several families do
    """{%- for message in messages %}
    {%- set content = message.content %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|' + message.role + '|>' + content.strip() + (eos_token if loop.last else '\\n') }}
    {%- endfor %}
    {%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}""",
    # macros, tojson, selectattr, tests, dictionaries, numbers
    """{{ bos_token }}{% macro part(name, value, sep='=') -%}
    {{ name }}{{ sep }}{{ value|tojson }}
    {%- endmacro %}
    {%- if tools is not none %}TOOLS{% endif %}
    {%- for m in messages if m.role in ['user', 'assistant'] %}
    {{ part(m.role, m) }} {{ part('n', loop.index * 2 // 3 % 5 ** 2 - 1, sep=':') }}
    {%- else %}nobody
    {%- endfor %}
    {{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list|length }}
    {{ messages|map(attribute='role')|unique|sort|join('/') }} {{ {'b': 1, 'a': [1.5, none, true]} }}
    {{ {'b': 1, 'a': {'x': 'é'}}|tojson(indent=2) }} {{ messages[0].items()|list|length }}
    {{ (messages|first).content.replace('b', 'B') }} {{ messages[-1]['content']|replace('y', 'Y') }}
    {{ undefined_name }}{{ undefined_name is defined }} {{ [] or 'empty' }} {{ 'a' if 1 < 2 <= 2 else 'b' }}
    {% set block %}a{{ 1 }}b{% endset %}{{ block * 3 }} {{ [1, 2] * 2 }} {{ (1, 'x') }} {{ dict(a=1).a }}
    {{ messages|map('length')|list }} {{ 'x,y'|string|upper ~ 3 ~ none }} {{ '3'|int + 1 }} {{ 'ß'.upper() }}
    {% filter upper %}text{% endfilter %} {{ range(3)|list }} {{ range(5)|last }} {{ 10 ** 9 * 1.5 }}""",
]


def plain(source: str) -> jinja2.Template:
    """The settings of the Hugging Face libraries, with their filter `tojson`."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, indent=None: json.dumps(
        value, ensure_ascii=False, indent=indent
    )
    return environment.from_string(source)


def same(source: str, messages: list[Message], generate: bool) -> None:
    want = plain(source).render(
        messages=messages,
        add_generation_prompt=generate,
        tools=None,
        documents=None,
        bos_token="<s>",
        eos_token="</s>",
    )
    assert ChatTemplate(source, "<s>", "</s>").render(messages, generate) == want


@pytest.fixture(scope="session")
def smollm2_source(smollm2_metadata: dict[str, object]) -> str:
    return str(smollm2_metadata["tokenizer.chat_template"])


def test_smollm2(smollm2_source: str) -> None:
    assert ChatTemplate(smollm2_source).render([{"role": "user", "content": "Hi"}]) == (
        "<|im_start|>system\n"
        "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


@given(messages=MESSAGES, generate=st.booleans())
def test_smollm2_is_as_in_plain_jinja(smollm2_source: str, messages: list[Message], generate: bool) -> None:
    same(smollm2_source, messages, generate)


@pytest.mark.parametrize("source", MANNERS)
@pytest.mark.parametrize("generate", [True, False])
def test_manners_are_as_in_plain_jinja(source: str, generate: bool) -> None:
    same(source, TALK, generate)
    same(source, TALK[1:2], generate)


def test_a_long_conversation(smollm2_source: str) -> None:
    messages = [{"role": "user", "content": "word " * 50}] * 2000
    same(smollm2_source, messages, True)
    same(smollm2_source, [{"role": "user", "content": "x" * 3_000_000}], True)
    for source in MANNERS[1:]:
        same(source, messages[:200], True)


def test_what_marks_answers_for_training_changes_nothing() -> None:
    marked = """{%- for m in messages -%}
    {%- set name = m.role -%}
    {%- if m.role == 'assistant' -%}
    {% generation %}{{ name }}{% set name = 'x' %}{{ m.content }} {{ loop.index }}{% endgeneration %}
    {%- else %}{{ name + m.content }}{% endif %}
    {{ name }}
    {%- endfor %}"""
    plain = marked.replace("{% generation %}", "{% with %}").replace("{% endgeneration %}", "{% endwith %}")
    assert ChatTemplate(marked).render(TALK) == ChatTemplate(plain).render(TALK)
    assert "assistant" + TALK[2]["content"] + " 3" in ChatTemplate(
        marked.replace("{% set name = 'x' %}", "")
    ).render(TALK)


def test_threads_share_a_template(smollm2_source: str) -> None:
    template = ChatTemplate(smollm2_source)
    talks = [[{"role": "user", "content": str(number) * 1000}] * 20 for number in range(4)]
    want = [template.render(talk) for talk in talks]
    wrong: list[int] = []

    def work(number: int) -> None:
        wrong.extend(number for _ in range(20) if template.render(talks[number]) != want[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_messages_are_not_changed() -> None:
    talk = [dict(message) for message in TALK]
    ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}").render(talk)
    assert talk == TALK


@pytest.mark.parametrize(
    ("messages", "place", "want"),
    [
        ([], "messages", "a list of at least one message"),
        ("hi", "messages", "a list of at least one message"),
        ({"role": "user", "content": "x"}, "messages", "a list of at least one message"),
        (["hi"], "messages[0]", "a dict"),
        ([TALK[0], {"role": "user"}], "messages[1].content", "a string"),
        ([TALK[0], {"content": "x"}], "messages[1].role", "a string"),
        ([{"role": "user", "content": None}], "messages[0].content", "a string"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content", "a string"),
        ([{"role": 7, "content": "x"}], "messages[0].role", "a string"),
        ([{"role": "", "content": "x"}], "messages[0].role", ", ".join(ROLES)),
        ([{"role": "user", "content": "x", "name": "y"}], "messages[0].name", "role, content"),
        ([{"role": "user", "content": "a\udc00"}], "messages[0].content[1]", "no surrogates"),
    ],
)
def test_bad_messages(messages: list[Message], place: str, want: str) -> None:
    template = ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
    with pytest.raises(RequestError) as caught:
        template.render(messages)
    assert (caught.value.place, caught.value.want) == (place, want)


ECHO = "{% for m in messages %}{{ m.content }}{% endfor %}"


def test_a_refusal_by_the_template() -> None:
    template = ChatTemplate(
        ECHO + "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    )
    with pytest.raises(RequestError) as caught:
        template.render(TALK)
    assert (caught.value.place, caught.value.got) == ("messages", "no system")


def test_a_failure_on_some_messages_only() -> None:
    template = ChatTemplate(ECHO + "{% if messages[0].role == 'system' %}{{ nothing.at_all }}{% endif %}")
    with pytest.raises(FormatError) as caught:
        template.render(TALK)
    assert caught.value.got == "UndefinedError: 'nothing' is undefined"


@pytest.mark.parametrize(
    ("source", "rule", "got"),
    [
        (ECHO + "{{ strftime_now('%Y') }}", "a chat template that asks for the date", "strftime_now('%Y')"),
        ("{{ raise_exception('x') }}", "the chat template refuses a plain conversation", "x"),
        ("{{ messages[0].content }}", "the chat template leaves out messages", ""),
        ("", "the chat template leaves out messages", ""),
        (
            "a\n{% if %}",
            "a chat template that doesn't compile",
            "line 2: TemplateSyntaxError: Expected an expression, got 'end of statement block'",
        ),
        (
            "{{ 1|nosuch }}",
            "a chat template that doesn't compile",
            "line 1: TemplateAssertionError: No filter named 'nosuch'.",
        ),
        ("x" * (LONGEST_SOURCE + 1), "bad chat template", f"{LONGEST_SOURCE + 1:,} characters"),
        (None, "bad chat template", "NoneType"),
        (ECHO + "{{ [1, 2]|random }}", "a chat template that doesn't compile", None),
        (ECHO + "{{ lipsum() }}", "the chat template fails on these messages", None),
        (ECHO + "{{ range }}", "a chat template that prints an object", "function"),
        (ECHO + "{{ ''.__class__.__mro__ }}", "the chat template fails on these messages", None),
        (ECHO + "{{ messages.append(1) }}", "the chat template fails on these messages", None),
        (ECHO + "{{ 'a'.format(1) }}", "the chat template fails on these messages", None),
        (ECHO + "{% include '/etc/passwd' %}", "the chat template fails on these messages", None),
        (ECHO + "{% autoescape true %}{% endautoescape %}", "a chat template that escapes HTML", ""),
    ],
)
def test_templates_that_are_refused(source: str, rule: str, got: str | None) -> None:
    with pytest.raises(FormatError) as caught:
        ChatTemplate(source)
    assert caught.value.rule == rule and caught.value.place == "tokenizer.chat_template"
    assert got is None or caught.value.got == got


LOOP, END = "{% for i in range(100000) %}", "{% endfor %}"
STATE = "{% set ns = namespace(x='ab', y=[1]) %}"
BIG = "{% set x = 'a' * 1000000 %}"


def grows(change: str) -> str:
    return STATE + LOOP + "{% set ns." + change + " %}" + END + "{{ ns.x }}{{ ns.y }}"


ENDLESS = [
    "{% for i in range(10**9) %}x{% endfor %}",
    *(LOOP * 3 + END * 3, LOOP * 2 + "x" * 1000 + END * 2, LOOP * 2 + "{{ loop.length }}" + END * 2),
    LOOP + "{% for j in range(100000) if false %}{% endfor %}" + END,
    "{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
    "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}"
    + LOOP
    + "{% call m() %}"
    + "x" * 999
    + "{% endcall %}"
    + END,
    *("{{ 'a' * 10**9 }}", "{{ 10**9 * 'a' }}", "{{ [1] * 10**9 }}", "{{ [[1] * 10**4] * 10**4 }}"),
    *("{{ 9**9**9 }}", "{{ 2**100000000 }}", grows("x = ns.x|length"), grows("y = ns.y * 9")),
    "{% set ns = namespace(x=9) %}" + LOOP + "{% set ns.x = ns.x * ns.x %}" + END,
    *("{{ '%1000000000d' % 1 }}", "{{ '{:1000000000}'.format(1) }}", "{{ '%1000000000d'|format(1) }}"),
    *("{{ '{a:1000000000}'.format_map({'a': 1}) }}", "{{ 'a'|center(10**9) }}", "{{ 'a'.center(10**9) }}"),
    *("{{ 'a'.ljust(10**9) }}", "{{ 'a'.zfill(10**9) }}", "{{ '\\t'.expandtabs(10**9) }}"),
    *("{{ 'a\\nb'|indent(10**9) }}", "{{ [1]|tojson(indent=10**9) }}", "{{ [1]|batch(10**9, 'x')|list }}"),
    *("{{ 1.5|round(10**9, 'ceil') }}", "{{ lipsum(n=10**6) }}", "{{ 'a'|wordwrap(1) }}"),
    *(grows("x = ns.x ~ ns.x"), grows("x = ns.x + ns.x"), grows("x = (ns.x ~ ns.x).upper()")),
    *(grows("x = [ns.x, ns.x]|join"), grows("x = ns.x.join([ns.x, ns.x, ns.x])")),
    *(grows("x = ns.x.replace('a', 'aa')"), grows("x = ns.x|replace('a', 'aa')")),
    *(grows("y = [ns.y, ns.y]"), grows("y = (ns.y, ns.y)"), grows("y = {'a': ns.y, 'b': ns.y}")),
    *(grows("y = dict(a=ns.y, b=ns.y)"), grows("y = namespace(a=ns.y, b=ns.y)"), grows("x = ns")),
    STATE + LOOP + "{% set z %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = z %}" + END,
    LOOP + "{% set z %}" + "a" * 30000 + "{% endset %}" + END,
    LOOP + "{% filter upper %}" + "a" * 30000 + "{% endfilter %}" + END,
    *("{{ range(100000)|join('x' * 100000) }}", BIG + "{{ x|join(x) }}", BIG + "{{ x.replace('', x) }}"),
    *(
        BIG + "{{ x }}" * 1000,
        BIG + "{{ " + " ~ ".join("x" * 1000) + " }}",
        BIG + "{{ x.split('a')|length }}",
    ),
    *(BIG + "{{ (x * 16)|list|length }}", "{{ ('\\n' * 3000000).splitlines()|length }}"),
    *(BIG + LOOP + "{{ x[1:]|length }}" + END, BIG + LOOP + "{% if 'b' in x %}{% endif %}" + END),
    *(BIG + LOOP + "{% if x == x ~ 'b' %}{% endif %}" + END, BIG + LOOP + "{{ x.count('b') }}" + END),
    *(BIG + LOOP + "{{ x is eq(x) }}" + END, BIG + LOOP + "{% set y = x|title %}" + END),
    *(LOOP + "{{ loop.cycle('a' * 100000, 'b') }}" + END, LOOP + "{{ range(100000)|sort|first }}" + END),
    LOOP * 2 + "{% generation %}{% for k in range(9) %}x{% endfor %}{% endgeneration %}" + END * 2,
    *("{{ [9]|map('meter spend')|list }}" + LOOP * 2 + "x" + END * 2, BIG + "{{ (x * 4)|int }}"),
    *(
        "{{ " + "(" * 30000 + "1" + ")" * 30000 + " }}",
        "{{ " + "-" * 60000 + "1 }}",
        "{{ " + "1+" * 30000 + "1 }}",
    ),
    *(
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
        "{% for i in [1] %}" * 30 + END * 30,
        "{{ a" + ".b" * 30000 + " }}",
    ),
    *("{{" * 30000, "{%" * 30000, "{#" * 30000, "{{ '" + "\\'" * 30000, "{{ " + "9" * 60000 + " }}"),
    *(
        "{{ " + "[" * 5000 + "]" * 5000 + " }}",
        "{{ 1" + "|string" * 8000 + " }}",
        "{{ a }}" * 9000,
        "\0" * 60000,
    ),
]

RUN = """
import json, resource, sys, time
from assay.errors import FormatError
from assay.llm.template import ChatTemplate
ChatTemplate("{% for m in messages %}{{ m.content }}{% endfor %}")
for source in json.load(sys.stdin):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    try:
        ChatTemplate(source)
        error = None
    except FormatError as caught:
        error = caught.place
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([error, time.process_time() - start, after - before]), flush=True)
"""


def test_templates_that_never_end_or_fill_the_memory() -> None:
    # In a process of its own, so that its peak of memory is the templates'. Measured: 2.5 s, 75 MB at most;
    # the bounds leave room for a busy machine.
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(ENDLESS), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(ENDLESS), ENDLESS[len(results)][:200]
    for source, (place, seconds, kilobytes) in zip(ENDLESS, results, strict=True):
        assert place == "tokenizer.chat_template", source[:200]
        assert seconds < 15 and kilobytes < 200_000, (source[:200], seconds, kilobytes)


@given(
    source=st.lists(
        st.sampled_from(
            ["{{", "}}", "{%", "%}", "{#", "#}", "-", " if ", " for ", "x", " in ", "|", "'", "("]
        )
    ).map("".join)
)
def test_random_templates_are_refused_or_work(source: str) -> None:
    try:
        ChatTemplate(ECHO + source).render(TALK)
    except FormatError as error:
        assert error.place == "tokenizer.chat_template"
