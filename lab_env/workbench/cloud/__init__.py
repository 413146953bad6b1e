"""The course on AWS: one CloudFormation template, its settings, its price, and its removal.

Nothing here creates a stack: you give `lake.yaml` to CloudFormation (docs/cloud.md). Only the `lab`
command imports this package, so the course never needs an account.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("lake.yaml")
