"""The streaming lakehouse course's lab: real servers, live load, proof that nothing is lost."""

from importlib import import_module

__all__ = ["Lab"]


def __getattr__(name: str):
    # Lazy, so that `lab status` does not import PySpark.
    if name == "Lab":
        return import_module("lab_env.lab.handle").Lab
    raise AttributeError(name)
