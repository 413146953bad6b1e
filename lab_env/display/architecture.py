"""The architecture as a drawing, with the addresses of a lab."""

import re
from html import escape
from pathlib import Path

DRAWING = Path(__file__).with_name("architecture.svg")
KAFKA, S3 = "127.0.0.1:9092", "127.0.0.1:9000"  # in the drawing


def architecture_svg(kafka: str, s3: str) -> str:
    """The pipeline as an `<svg>` element that follows the page's text colour.

    Args:
        kafka: address of the broker.
        s3: address of the object store, with or without `http://`.
    """
    addresses = {KAFKA: escape(kafka), S3: escape(s3.rpartition("://")[2])}
    return re.sub(
        "|".join(addresses), lambda found: addresses[found[0]], DRAWING.read_text("utf-8")
    )
