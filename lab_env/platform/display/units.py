"""Format sizes and time spans for display."""


def duration_text(seconds: float) -> str:
    """Format a time span: `0.4 s`, `42 s`, `3 min`, `5 h`, `2.5 d`."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    unit, scale = (
        ("min", 60) if seconds < 3600 else ("h", 3600) if seconds < 86400 else ("d", 86400)
    )
    value = seconds / scale
    return f"{value:.1f} {unit}" if value < 9.95 and value % 1 else f"{value:.0f} {unit}"


def size_text(size: int) -> str:
    """Format a number of bytes, in powers of 1000: `912 B`, `2.1 KB`, `435 KB`, `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    for unit, scale in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if size < scale * 1000 or unit == "GB":
            break
    value = size / scale
    return f"{value:.1f} {unit}" if value < 10 else f"{value:,.0f} {unit}"
