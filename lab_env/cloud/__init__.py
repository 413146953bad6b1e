"""The course on AWS: one CloudFormation template, its settings, its price, and taking it apart.

Nothing here makes a stack: `lake.yaml` is given to CloudFormation (docs/cloud.md). Nothing imports
this room but the `lab` command, so the course never needs an account.
"""

from pathlib import Path

TEMPLATE = Path(__file__).with_name("lake.yaml")
