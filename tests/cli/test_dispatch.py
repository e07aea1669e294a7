"""Finding commands, help, near misses, exit codes."""

from __future__ import annotations

import shlex
from importlib import import_module
from importlib.metadata import entry_points

import pytest

import assay
from assay import settings
from assay.cli.command import CODES, Argument
from assay.cli.dispatch import COMMANDS, command
from assay.errors import FormatError, RequestError
from houserules.sources import REPOSITORY


def test_the_installed_script_is_this_main() -> None:
    (script,) = entry_points(group="console_scripts", name="assay")
    assert script.load() is assay.cli.main


def test_the_overview_names_every_command(cli) -> None:
    outcome = cli("--help")
    assert outcome.code == 0
    for name in COMMANDS:
        assert f"  {name} " in outcome.out
        assert command(name).summary in outcome.out


def test_no_command_is_a_usage_error_that_shows_the_overview(cli) -> None:
    assert cli().code == 2
    assert cli().out == cli("help").out


@pytest.mark.parametrize("option", ["--version", "-V", "-v"])
def test_the_version(cli, option: str) -> None:
    assert cli(option).out == f"assay {assay.__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_with_examples(cli, name: str) -> None:
    outcome = cli(*name.split(), "--help")
    assert outcome.code == 0 and outcome.err == ""
    assert f"usage: assay {name}" in outcome.out
    examples = outcome.out.partition("examples:\n")[2].splitlines()
    assert examples == [f"  {example}" for example in command(name).examples]
    assert all(f"assay {name}" in example for example in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_are_read_without_complaint(name: str) -> None:
    for example in command(name).examples:
        line = example.rpartition(f"assay {name}")[2].partition("|")[0].partition(">")[0]
        command(name).read(shlex.split(line))


def test_a_family_without_its_command_lists_it(cli) -> None:
    assert cli("bench").code == 2
    outcome = cli("bench", "--help")
    assert outcome.code == 0
    assert "bench llm" in outcome.out and "bench kernels" in outcome.out and "doctor" not in outcome.out
    assert outcome.out.startswith("usage: assay bench COMMAND …\n")
    assert "\nassay bench COMMAND --help explains" in outcome.out


def test_the_exit_codes_are_the_readmes(cli) -> None:
    readme = " ".join((REPOSITORY / "README.md").read_text().split())
    assert f"Exit codes: {CODES}." in readme
    assert f"\nExit codes: {CODES}.\n" in cli("--help").out


@pytest.mark.parametrize(
    ("line", "wrong", "near"),
    [
        (["rum", "x"], "no such command: rum", "run"),
        (["doctr"], "no such command: doctr", "doctor"),
        (["bench", "lm", "x"], "no such command: bench lm", "bench llm"),
        (["run", "smollm2", "hi", "--max-token", "3"], "no such option: --max-token", "--max-tokens"),
        (["show", "smollm2", "--plam"], "no such option: --plam", "--plan"),
        (["run", "smollm2", "hi", "--sed=3"], "no such option: --sed", "--seed"),
        # What a word begins comes before what it resembles.
        (["run", "smollm2", "hi", "--temp", "0.5"], "no such option: --temp", "--temperature?"),
        (["run", "smollm2", "--max"], "no such option: --max", "--max-tokens?"),
        (["bench", "llm", "smollm2", "--gen=3"], "no such option: --gen", "--generate?"),
        (["bench", "ker"], "no such command: bench ker", "bench kernels?"),
        (["doc"], "no such command: doc", "doctor?"),
    ],
)
def test_near_misses_of_commands_and_options_are_usage_errors(
    cli, line: list[str], wrong: str, near: str
) -> None:
    outcome = cli(*line)
    assert outcome.code == 2 and outcome.out == ""
    assert f"{wrong}; did you mean {near}" in outcome.err
    assert "--help" in outcome.err


@pytest.mark.parametrize(
    ("line", "near"),
    [
        (["pull", "smolm2"], "smollm2"),
        (["check", "smolm2"], "smollm2"),
        (["check", "no/such.onnx"], ""),
        (["contract", "linaer"], "linear"),
        (["contract", "gem"], "Gemm?"),
        (["contract", "softm"], "Softmax or SoftmaxCrossEntropyLoss?"),
        (["contract", "Scaler"], "ai.onnx.ml.Scaler?"),
        (["contract", "FlexAttention"], "ai.onnx.preview.FlexAttention?"),
    ],
)
def test_near_misses_of_models_and_operators_are_wrong_requests(cli, line: list[str], near: str) -> None:
    outcome = cli(*line)
    assert outcome.code == 2 and outcome.out == ""
    assert f"did you mean {near}" in outcome.err or not near
    assert "Traceback" not in outcome.err


def test_what_is_far_from_everything_gets_no_suggestion(cli) -> None:
    assert cli("qqqqqq").err == "assay: no such command: qqqqqq\n  hint   assay --help\n"
    assert cli("infer", "x", "--shape", "x=1").err.startswith("assay infer: no such option: --shape\n")
    assert cli("bench", "qqqqqq").err == (
        "assay: no such command: bench qqqqqq\n"
        "  hint   there is bench llm and bench onnx and bench kernels; assay bench --help\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        ["run", "smollm2"],
        ["run", "smollm2", "why", "not"],
        ["run", "smollm2", "hi", "--threads", "0"],
        ["run", "smollm2", "hi", "--threads", "two"],
        ["run", "smollm2", "hi", "--activations", "int4"],
        ["bench", "llm", "smollm2", "--batch", "1,x"],
        ["bench", "kernels", "smollm2", "--targets", "sse9"],
        ["settings", "all"],
    ],
)
def test_a_wrong_command_line_is_a_usage_error(cli, line: list[str]) -> None:
    outcome = cli(*line)
    assert outcome.code == 2 and outcome.out == ""
    assert outcome.err.startswith("assay ")
    hint = outcome.err.splitlines()[-1]
    assert hint.startswith("  hint   ") and hint.endswith(" --help")
    assert "argument -" not in outcome.err and "invalid" not in outcome.err


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (["run", "smollm2", "hi", "--temperature", "abc"], "--temperature: not a number\n  wanted a number"),
        (
            ["run", "smollm2", "hi", "--threads", "two"],
            "--threads: not such an integer\n  wanted an integer of",
        ),
        (["run", "smollm2", "hi", "--threads", "9" * 5000], "--threads: not such an integer"),
        (["show", "smollm2", "--activations", "int4"], "--activations: no such choice; did you mean int8?\n"),
        (["bench", "kernels", "x", "--targets", "avx2,sse"], "--targets: no such choice\n  wanted host | "),
        (["quantize", "a", "b", "Q4_K_M"], "TYPE: no such choice; did you mean q4_k "),
        (["run", "smollm2", "hi", "--seed", "1", "--seed", "2"], "--seed: this is given already"),
        (["run", "smollm2", "hi", "--seed=1", "--seed=1"], "--seed: this is given already"),
        (["run", "smollm2", "hi", "--guesses", "--no-guesses"], "--no-guesses: this is given already"),
        (["eval", "smollm2", "x", "--json", "--json"], "--json: this is given already"),
        (["run", "smollm2", "hi", "--seed"], "--seed: a value is missing\n"),
        (
            ["run", "smollm2", "hi", "--stop", "-x"],
            "--stop: a value is missing\n  hint   --stop=-x if that is",
        ),
        (["run", "smollm2", "hi", "--json=3"], "--json: this takes no value: '3'\n"),
        (["run"], "not given: MODEL, PROMPT\n"),
        (
            ["run", "smollm2", "-x"],
            "no such option: -x\n  hint   -- goes before a prompt that begins with -: ",
        ),
        (["run", "smollm2", "why", "not"], "one argument too many: 'not'\n  hint   quote a prompt"),
        (["contract", "a", "b"], "one argument too many: 'b'\n  hint   assay contract --help\n"),
        (["settings", "foo"], "one argument too many: 'foo'\n  hint   assay settings --help\n"),
        (["doctor", "foo"], "one argument too many: 'foo'\n  hint   assay doctor --help\n"),
    ],
)
def test_a_wrong_command_line_is_told_in_the_form_of_all_errors(cli, line: list[str], what: str) -> None:
    words = 2 if line[0] == "bench" else 1
    assert cli(*line).err.startswith(f"assay {' '.join(line[:words])}: {what}")


@pytest.mark.parametrize(
    "line",
    [
        ["smollm2", "-1 is less than 0"],
        ["smollm2", "- a list"],
        ["smollm2", "--is this = that?"],
        ["smollm2", "-5"],
        ["smollm2", "--", "-x"],
        ["--stop=-x", "smollm2", "--", "--temp"],
    ],
)
def test_a_prompt_may_begin_with_a_dash(line: list[str]) -> None:
    assert command("run").read(line).prompt == line[-1]


def _accepts(argument: Argument, text: str) -> bool:
    try:
        argument.type(text)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_options_may_stand_anywhere(name: str) -> None:
    """Wherever an option stands between the words, and in whatever form, the values are the same."""
    arguments = import_module(f"assay.cli.{name.replace(' ', '_')}").ARGUMENTS
    several = {"*": 3, "?": 1, None: 1}
    words = ["q8_0" for each in arguments if each.name[0] != "-" for _ in range(several[each.nargs])]
    read = command(name).read
    for option in (each for each in arguments if each.name[0] == "-"):
        value = ["1"] * bool(option.metavar)
        if value and not _accepts(option, "1"):
            continue
        wanted = vars(read([*words, option.name, *value]))
        forms = [[option.name, *value]] + [[f"{option.name}=1"] for _ in value]
        for form in forms:
            for at in range(len(words) + 1):
                assert vars(read([*words[:at], *form, *words[at:]])) == wanted
                assert vars(read([*words[:at], *form, "--", *words[at:]])) == wanted


@pytest.mark.parametrize("value", ["--", "-", "", " ", "a=b", "--no such", "-1", "x"])
def test_a_value_is_what_was_written(value: str) -> None:
    read = command("run").read
    assert (
        read(["m", f"--stop={value}", "p"]).stop
        == read(["--stop", "x", "m", "p", f"--stop={value}"]).stop[1:]
    )
    assert read(["m", "p", f"--stop={value}"]).stop == [value]
    assert value == "--" or read(["m", "p", "--stop", value]).stop == [value]
    assert read(["m", "--stop=x", "--", value]).prompt == value


@pytest.mark.parametrize(("error", "code"), [(FormatError, 1), (RequestError, 2)])
def test_an_error_is_its_text_and_no_traceback(cli, monkeypatch, error: type[Exception], code: int) -> None:
    def fail(*arguments: object) -> None:
        raise error("broken", place="file › tensor 3", want="a", got="b", hint="c")

    monkeypatch.setattr("assay.ops.registry.all_operators", fail)
    outcome = cli("contract")
    assert outcome.code == code
    assert outcome.err == "assay: file › tensor 3: broken\n  wanted a\n  got    b\n  hint   c\n"


@pytest.mark.parametrize("line", [["contract", "linear"], ["run", "nosuch", "hi"], ["show", "nosuch"]])
def test_a_setting_that_cannot_be_read_is_refused_by_every_command(cli, monkeypatch, line: list[str]) -> None:
    for setting in settings.ALL:
        with monkeypatch.context() as patch:
            patch.setenv(setting.name, "\n")
            outcome = cli(*line)
        assert outcome.code == 2 and outcome.out == ""
        assert outcome.err.startswith(f"assay: {setting.name}: a setting can't be read\n")
