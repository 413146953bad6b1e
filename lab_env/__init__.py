"""The lab behind the streaming lakehouse course: real servers, live load, and proof that nothing was lost."""

from importlib import import_module

__all__ = ["Lab"]


def __getattr__(name: str):
    # Lazy: `lab status` must not pay for importing PySpark.
    if name == "Lab":
        return import_module("lab_env.lab").Lab
    raise AttributeError(name)
