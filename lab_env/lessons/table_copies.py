"""Copies of a table on the store that show only some of its commits, for checks that move time."""

from collections.abc import Sequence

from lab_env import store
from lab_env.hudi.timeline import Instant, parse_timeline_key


def copy_table(lab, source: str, target: str, hidden: Sequence[Instant] = ()) -> None:
    """Copy the files that the target lacks, except the timeline files of the hidden commits.

    Without its timeline files a commit's data files are there, and no reader sees them. A later
    call that no longer hides the commit lets it arrive.
    """
    s3, bucket = store.client(lab.endpoints), lab.endpoints.bucket
    begin, folder = store.key_of(source), store.key_of(target)
    present = {found.key for found in lab.files(target)}
    late = {instant.requested for instant in hidden}
    for found in lab.files(source):
        part = found.key.removeprefix(begin)
        instant = parse_timeline_key(part)
        arrived = instant is None or instant.requested not in late
        if arrived and folder + part not in present:
            s3.copy_object(
                Bucket=bucket, Key=folder + part, CopySource={"Bucket": bucket, "Key": found.key}
            )
