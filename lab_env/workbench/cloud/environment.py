"""Converts a stack's outputs to settings of the lab.

The output `LabS3Bucket`, for example, stands for the setting `LAB_S3_BUCKET`: CloudFormation allows
no underscores in names of outputs.
"""

import re
import shlex

from lab_env.platform.errors import LabError
from lab_env.platform.settings import Settings
from lab_env.workbench.cloud.stack import Stack

PREFIX = "Lab"


def setting_of(output: str) -> str:
    """Return the field of `Settings` for an output, such as `s3_bucket` for `LabS3Bucket`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", output.removeprefix(PREFIX)).lower()


def settings_of(outputs: dict[str, str]) -> dict[str, str]:
    """Return the settings among a stack's outputs, by environment variable."""
    fields = {setting_of(name): value for name, value in outputs.items() if name.startswith(PREFIX)}
    unknown = sorted(set(fields) - set(Settings.model_fields))
    if unknown:
        names = ", ".join(f"LAB_{field.upper()}" for field in unknown)
        raise LabError(
            f"The stack belongs to another version of the lab, which has {names}.",
            "update the stack with this version's template: lab cloud template",
        )
    return {f"LAB_{field.upper()}": value for field, value in sorted(fields.items())}


def shell_lines(stack: Stack) -> list[str]:
    """Return the settings as shell commands, for `eval "$(lab cloud env STACK)"`.

    The commands also unset keys of another store, which would override the machine's own role.
    """
    found = settings_of(stack.outputs)
    if "LAB_S3_BUCKET" not in found:
        stack.output(f"{PREFIX}S3Bucket")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in found.items()]
    lines.append("unset LAB_S3_ACCESS_KEY LAB_S3_SECRET_KEY")
    if "Kinesis" in stack.outputs:
        name = shlex.quote(stack.outputs["Kinesis"])
        lines.append(f"# Kinesis stream: lab load --topic {name}; then lab ledger --topic {name}")
    unused = {"Glue database": "Database", "Kafka": "Kafka"}
    found = [f"# {t}: {stack.outputs[name]}" for t, name in unused.items() if name in stack.outputs]
    return [*lines, *found, *["# The lab does not read these yet (docs/cloud.md)."] * bool(found)]
