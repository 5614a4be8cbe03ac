"""How Sphinx makes the site: `python -m sphinx -nW --keep-going docs site`.

Pages are plain Markdown that also reads well on a forge. Nothing is fetched, neither when the site
is built nor when it is looked at.
"""

import re
from importlib import metadata

project = "hami-cache"
author = "The hami-cache authors"
release = metadata.version("hami-cache")

extensions = ["myst_parser"]

# Two hyphens are an option's, not a dash.
smartquotes = False

# Links into the middle of a page are written as a forge makes them, and are checked.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"hami-cache {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False


def anchors_become_labels(app, page, text):
    """Let links to `## <a id="x"></a>title` be checked: to MyST, such an anchor is mere HTML."""
    text[0] = re.sub(r'^(#+ )<a id="([\w-]+)"></a>', r"(\2)=\n\1", text[0], flags=re.MULTILINE)


def setup(app):
    """What Sphinx calls first."""
    app.connect("source-read", anchors_become_labels)
