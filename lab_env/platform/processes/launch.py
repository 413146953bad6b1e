"""Start one supervised program: read its description, then exec it (same pid).

Standard library only, so that it starts fast. Paths and values need no shell quoting.
"""

import json
import os
import sys
import time


def launch(description: str) -> None:
    """Replace this process with the program that a JSON file describes.

    It has `argv`, `env` (added to the environment), `cwd` and `start_mark`, which begins the line
    that separates the runs in the program's log.
    """
    with open(description) as file:
        program = json.load(file)
    # One byte per start: the file's size is the number of starts.
    with open(description.removesuffix(".json") + ".starts", "ab") as starts:
        starts.write(b".")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(program["start_mark"], now, flush=True)
    environment = {**os.environ, **program["env"]}
    os.chdir(program["cwd"])
    os.execve(program["argv"][0], program["argv"], environment)


if __name__ == "__main__":
    launch(sys.argv[1])
