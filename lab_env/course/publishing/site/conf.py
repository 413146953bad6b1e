"""Sphinx configuration of the site; `build.py` passes the list of pages."""

project = "The streaming lakehouse, hands on"
html_title = project
author = "the course's authors"
language = "en"
root_doc = "docs/README"
extensions = ["myst_nb", "lab_env.course.publishing.site.pages"]

# The tests have executed the notebooks already.
nb_execution_mode = "off"
nb_merge_streams = True
# Both would be fetched from other servers; no lesson has a widget or a formula.
nb_ipywidgets_js = {}
html_math_renderer = None

suppress_warnings = ["myst.header"]  # the glossary has terms, not chapters
# GitHub's anchors, so that one link serves there and here.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
smartquotes = False  # it would make a dash of the two hyphens of an option

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"top_of_page_buttons": []}
