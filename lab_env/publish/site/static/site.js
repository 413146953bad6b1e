// What scrolls sideways can be reached, and so scrolled, with the keyboard.
function makeReachable() {
  for (const part of document.querySelectorAll("pre, .output, .table-wrapper")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
  }
}
addEventListener("load", makeReachable);
addEventListener("resize", makeReachable);
