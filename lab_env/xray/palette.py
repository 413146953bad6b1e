"""Every colour of the X-ray, and what it stands for; no other file of it names one.

Okabe and Ito's colours, which colour-blind readers tell apart, two of them darkened so that white text
on them reads. A shape or a word always says the same as the colour.
"""

BLUE, GREEN, SKY = "#0072B2", "#00805E", "#56B4E9"
PINK, VERMILION, AMBER, GREY = "#CC79A7", "#D55E00", "#E69F00", "#8C8C8C"

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

# The page's own colours, with those of a light page where there are none.
INK = "var(--jp-content-font-color1, #24292f)"
FAINT = "var(--jp-content-font-color2, #57606a)"
PAPER = "var(--jp-layout-color0, #fff)"
PANEL = "var(--jp-layout-color2, #f5f5f5)"
ON_FILE = "#fff"
ON_NEW = "#000"
