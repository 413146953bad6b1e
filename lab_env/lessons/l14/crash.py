"""Fakes a crash between a batch's write and its commit file."""

from lab_env.platform import store
from lab_env.platform.errors import LabError


def forget_last_commit(lab, checkpoint: str) -> int:
    """Delete the newest file of `commits`, as after a crash, and return its batch number."""
    numbers = [
        int(name)
        for found in lab.files(f"{checkpoint}/commits")
        if (name := found.key.rpartition("/")[2]).isdigit()
    ]
    if not numbers:
        raise LabError(
            f"No batch is committed at {checkpoint}.", "run the stream with this checkpoint first."
        )
    key = store.key_of(f"{checkpoint}/commits/{max(numbers)}")
    store.delete(lab.endpoints, key)
    return max(numbers)
