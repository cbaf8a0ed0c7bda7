"""Structured logs: JSON lines beside the lines for people, on request."""

import json
import logging

import pytest

from f2ed.core.errors import ConfigError
from f2ed.deployment.json_log import VARIABLE, log_json


@pytest.fixture
def logger():
    made = logging.getLogger("test_json_log")
    yield made
    for handler in [*made.handlers]:
        handler.close()
        made.removeHandler(handler)


def test_lines_are_json_with_what_was_added(logger, tmp_path):
    path = tmp_path / "f2ed.jsonl"
    for _ in range(2):  # Once, however often it is called.
        log_json({VARIABLE: str(path)}, logger)
    logger.warning("f2ed: round %s: skipped", 3, extra={"event": "round", "round": 3})
    try:
        int("why")
    except ValueError:
        logger.exception("f2ed: it failed")
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["message"] == "round 3: skipped"
    assert (first["level"], first["logger"], first["event"], first["round"]) == ("warning", "test_json_log", "round", 3)
    assert first["time"].endswith("+00:00")
    assert "ValueError: invalid literal" in second["traceback"]
    assert path.stat().st_mode & 0o027 == 0


def test_a_file_that_was_moved_away_is_begun_again(logger, tmp_path):
    path = tmp_path / "f2ed.jsonl"
    log_json({VARIABLE: str(path)}, logger)
    logger.warning("one")
    path.rename(tmp_path / "f2ed.jsonl.1")
    logger.warning("two")
    assert json.loads(path.read_text())["message"] == "two"


def test_standard_error_and_nothing(logger, capsys):
    log_json({}, logger)
    assert logger.handlers == []
    log_json({VARIABLE: "-"}, logger)
    logger.error("said")
    assert json.loads(capsys.readouterr().err)["message"] == "said"


def test_a_path_that_cannot_be_written_is_named(logger, tmp_path):
    with pytest.raises(ConfigError, match="cannot be written: No such file"):
        log_json({VARIABLE: str(tmp_path / "none" / "f2ed.jsonl")}, logger)
