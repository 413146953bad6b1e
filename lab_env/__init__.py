"""The streaming lakehouse course's lab: real servers, live load, proof that nothing is lost."""

import os
import sys
import warnings
from importlib import import_module
from pathlib import Path

__all__ = ["Lab"]

# Modules and strict warnings of the user's other work must not win over the lab's libraries.
_others = {*os.environ.get("PYTHONPATH", "").split(os.pathsep)} - {str(Path(__file__).parents[1])}
sys.path.sort(key=lambda entry: bool(entry) and entry in _others)
if os.environ.get("PYTHONWARNINGS"):
    warnings.resetwarnings()


def __getattr__(name: str):
    # Lazy, so that `lab status` does not import PySpark.
    if name == "Lab":
        return import_module("lab_env.lab.handle").Lab
    raise AttributeError(name)
