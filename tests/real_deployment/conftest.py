"""Real processes, which take minutes: these tests run when they are asked for, as `make test-deployment` does."""

import importlib.util
import warnings

if importlib.util.find_spec("flwr") is not None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import flwr.clientapp
        import flwr.serverapp  # noqa: F401


def pytest_ignore_collect(config):
    """Leave this folder out of a run that does not name it."""
    return None if any("real_deployment" in argument for argument in config.args) else True
