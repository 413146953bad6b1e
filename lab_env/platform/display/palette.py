"""Colours of all drawings: Okabe and Ito's palette, which colour-blind readers can distinguish."""

BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
AMBER, VERMILION, PINK = "#E69F00", "#D55E00", "#CC79A7"
GREY = "#8C8C8C"
