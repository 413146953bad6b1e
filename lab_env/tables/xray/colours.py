"""All colours of the X-ray and their meaning; the other modules define none.

Everything that a colour shows is also shown by a shape or a word.
"""

from lab_env.platform.display.palette import AMBER, BLUE, GREY, PINK, SKY, VERMILION

GREEN = "#00805E"  # the palette's, darkened so that white text is readable

FILE = {"base": BLUE, "log": GREEN, "cdc": SKY}
ACTION = {
    "commit": BLUE,
    "deltacommit": GREEN,
    "compaction": PINK,
    "logcompaction": PINK,
    "clustering": SKY,
    "replacecommit": SKY,
    "rollback": VERMILION,
    "restore": VERMILION,
}
OTHER_ACTION = GREY  # clean, savepoint, indexing
NEW = AMBER
NOT_COMMITTED = VERMILION
DAMAGED = VERMILION
WRITERS = (PINK, SKY, GREY)  # jobs with a name, in order, reused from the start

# The page's own colours, else those of a light page.
INK = "var(--jp-content-font-color1, #24292f)"
FAINT = "var(--jp-content-font-color2, #57606a)"
PAPER = "var(--jp-layout-color0, #fff)"
PANEL = "var(--jp-layout-color2, #f5f5f5)"
ON_FILE = "#fff"
ON_NEW = "#000"
