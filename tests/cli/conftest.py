"""The command line, run in this process."""

import pytest

from f2ed.cli.app import app
from f2ed.core.errors import ConfigError


@pytest.fixture
def f2ed(monkeypatch, tmp_path, capsys):
    """Run the command; return its exit status, standard output and standard error."""

    def command(*arguments):
        monkeypatch.chdir(tmp_path)
        try:
            app([*map(str, arguments)])
        except SystemExit as end:
            status = end.code
        except ConfigError as error:
            status = str(error)
        else:
            status = 0
        return status, *capsys.readouterr()

    return command
