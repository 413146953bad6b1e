"""The course on AWS: a CloudFormation template, the stack's settings, cost and removal.

Nothing here creates a stack: you give `lake.yaml` to CloudFormation yourself (docs/cloud.md). Only
the `lab` command imports this package, so the lessons need no AWS account.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("lake.yaml")
