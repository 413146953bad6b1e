"""The X-ray of a Hudi table: its timeline, files and commits, drawn for a notebook."""

from lab_env.tables.xray.view import CommitCard, StoredTable, XRay, xray

__all__ = ["CommitCard", "StoredTable", "XRay", "xray"]
