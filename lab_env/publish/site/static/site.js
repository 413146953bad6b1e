function makeAccessible() {
  // Sphinx makes headings of these captions, and leaves out their level.
  for (const caption of document.querySelectorAll("p.caption[role=heading]")) {
    caption.setAttribute("aria-level", "2");
  }
  // What scrolls sideways can be reached, and so scrolled, with the keyboard.
  for (const part of document.querySelectorAll("pre, .output, .table-wrapper, p:has(> img)")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
addEventListener("load", makeAccessible);
addEventListener("resize", makeAccessible);
