"""Extract the reason for a streaming query's failure from its error."""

import re


def why_failed(error: Exception) -> str:
    """Return the line of a failed query's message that gives the reason.

    An error from a Python function is in the middle of the message.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "terminated with exception: " in line]
    first = told[0].partition("terminated with exception: ")[2] if told else str(error)
    if "Python Proxy" not in first:
        return first
    own = [line for line in lines if re.match(r"\w+(Error|Exception): ", line)]
    java = [line.partition(": ")[2] for line in lines if line.startswith(("Caused by: ", ": "))]
    return (java or own or [first])[-1]
