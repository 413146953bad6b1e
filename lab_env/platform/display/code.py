"""Python code as HTML in the colours of JupyterLab's editor, in both themes."""

from html import escape

from markupsafe import Markup


def coloured(code: str) -> Markup:
    """Python code as HTML, each token in the colour that JupyterLab's editor gives it."""
    # Imports that take longer than most commands of `lab`.
    from pygments.lexers.python import PythonLexer
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    colours = {
        Keyword: "keyword",
        Operator.Word: "keyword",
        Operator: "operator",
        Comment: "comment",
        String: "string",
        Number: "number",
        Name.Function: "def",
        Name.Builtin: "builtin",
    }
    parts = []
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(code):
        name = next((name for of, name in colours.items() if kind in of), None)
        style = f"color:var(--jp-mirror-editor-{name}-color)"
        parts.append(f"<span style='{style}'>{escape(text)}</span>" if name else escape(text))
    return Markup("".join(parts))
