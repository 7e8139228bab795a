"""Every error of the gateway belongs to one family: retryable or permanent."""

import importlib
import inspect
import pkgutil

import inference
from inference.contract import errors
from inference.contract.errors import GatewayError, PermanentError, RetryableError
from inference.core.backend_errors import BackendError
from inference.core.openai.errors import ApiError
from inference.wires.grpc import GrpcError

ABOVE_BOTH = {GatewayError, ApiError, BackendError, GrpcError}


def error_classes() -> list[type[BaseException]]:
    modules = (
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(inference.__path__, "inference.")
        if not module.name.endswith("__main__")
    )
    return [
        value
        for module in modules
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, BaseException) and value.__module__ == module.__name__
    ]


def test_every_error_is_of_one_family_and_in_the_tree() -> None:
    classes = error_classes()
    assert set(classes) >= ABOVE_BOTH
    for error in set(classes) - ABOVE_BOTH:
        assert issubclass(error, PermanentError) != issubclass(error, RetryableError), error
        assert error.__name__.endswith("Error"), error
        assert f" {error.__name__} " in str(errors.__doc__), error


def test_a_retryable_error_says_when() -> None:
    for error in error_classes():
        if issubclass(error, RetryableError):
            assert hasattr(error, "retry_after_s"), error
