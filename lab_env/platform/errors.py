"""Error that tells users what happened and what to do next."""


class LabError(Exception):
    """A failure that the user can fix: what happened, what to try first, and the end of a log."""

    def __init__(self, what: str, next_step: str = "", log: str = ""):
        super().__init__(what)
        self.what = what
        self.next_step = next_step
        self.log = log

    def __str__(self) -> str:
        parts = [self.what]
        if self.log:
            parts.append("Last lines of its log:\n" + self.log.rstrip())
        if self.next_step:
            parts.append("Next step: " + self.next_step)
        return "\n".join(parts)
