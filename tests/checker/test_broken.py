"""Broken models: the check finds all that is wrong and nothing else, and loading refuses the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

import assay
from assay.audit.report import Report
from assay.errors import AssayError, ContractError, FormatError, Violation
from assay.runtime.model import Model
from checker.broken import CASES, Broken


def found(error: AssayError) -> tuple[int, str, str, str]:
    if isinstance(error, Violation):
        return error.line, error.node, error.operator, error.rule
    return 0, "", "", error.rule


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_all_that_is_wrong_is_found_and_refused(case: Broken, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(case.model, path)
    report = assay.check(path)
    told = list(map(found, report.violations))
    assert [each[:3] for each in told] == [each[:3] for each in case.found]
    assert [want for want, got in zip(case.found, told, strict=True) if want[3] not in got[3]] == []
    assert sum(getattr(error, "consequences", 0) for error in report.violations) == case.folded
    for error in report.violations:
        assert error.want and error.got and str(error).startswith(str(path))
        if isinstance(error, Violation):
            assert error.hint
            assert error.line == 0 or f"{path} › line {error.line} › " in str(error)
    with pytest.raises((ContractError, FormatError)) as caught:
        Model.load(path, 1)
    refused = getattr(caught.value, "violations", (caught.value,))
    assert list(map(str, refused)) == list(map(str, report.violations))
    hold_sarif(report)


def test_there_are_enough_and_they_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
    rules = {re.sub(r"\W.*", "", rule) for case in CASES for *_, rule in case.found}
    assert len(rules) > 20
    assert any(case.folded > 3 for case in CASES) and any(len(case.found) > 2 for case in CASES)
    assert all(rule for case in CASES for *_, rule in case.found)


def hold_sarif(report: Report) -> None:
    """What SARIF 2.1.0's schema requires of a log, its runs, rules, results and locations."""
    log = report.sarif()
    assert log["version"] == "2.1.0" and str(log["$schema"]).startswith("https://")
    (run,) = log["runs"]  # type: ignore[misc]
    driver = run["tool"]["driver"]
    assert driver["name"] == "assay"
    rules = driver["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    assert all(rule["shortDescription"]["text"] for rule in rules)
    assert len(run["results"]) == len(report.violations)
    for result, error in zip(run["results"], report.violations, strict=True):
        assert result["message"] == {"text": str(error)}
        assert result["level"] in ("none", "note", "warning", "error")
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        hold_location(place)


def hold_location(place: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
    physical = place["physicalLocation"]
    assert re.fullmatch(r"[A-Za-z0-9%._~:/-]+", str(physical["artifactLocation"]["uri"]))
    if "region" in physical:
        assert isinstance(physical["region"]["startLine"], int) and physical["region"]["startLine"] >= 1
    for logical in place.get("logicalLocations", ()):
        assert set(logical) <= {"name", "fullyQualifiedName", "kind"}
