"""A program that serves tasks to its parent process, one line of JSON each way."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def serve(start: Callable[[], Any], failure: Callable[[Exception], dict]) -> Any:
    """Serve tasks until stdin closes, and return the object that `start` made.

    The object's methods are the tasks, and `failure` makes the reply for one that raised. The first
    reply, `{}`, means that the program is ready. Other output goes to the log.
    """
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the JVM and of other code goes to the log
    worker = start()
    replies.write("{}\n")
    for line in sys.stdin:
        arguments = json.loads(line)
        try:
            reply = getattr(worker, arguments.pop("task"))(**arguments)
        except Exception as error:
            traceback.print_exc()
            reply = failure(error)
        replies.write(json.dumps(reply) + "\n")
    return worker
