function makeAccessible() {
  // Sphinx marks these captions as headings without a level.
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  // Make parts that scroll sideways reachable, and so scrollable, with the keyboard.
  for (const part of document.querySelectorAll("pre, .output, .table-wrapper, p:has(> img)")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
addEventListener("load", makeAccessible);
addEventListener("resize", makeAccessible);
