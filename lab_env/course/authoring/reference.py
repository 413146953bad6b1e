"""Generates docs/commands.md from the commands' help, and docs/settings.md from the settings.

`lab author build` writes the two pages, and `lab author check` reports outdated ones.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from lab_env.platform.display.html import render
from lab_env.platform.settings import REPOSITORY, Settings

DOCS = REPOSITORY / "docs"
TEMPLATES = "course/authoring/reference_pages"
COMPUTED = {"cache": "`~/.cache/streaming-lakehouse`", "public_url": "not set"}
_TARGET = re.compile(r"^([a-z]+):.*## (.*)", re.MULTILINE)


def pages(lab) -> dict[Path, str]:
    """Return the content of both pages by path; `lab` is the CLI's click group."""
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = "\n".join(f"| `make {name}` | {what} |" for name, what in _TARGET.findall(makefile))
    made = {
        "commands": {"targets": targets, "commands": "\n\n".join(_panels(lab))},
        "settings": {"settings": "\n\n".join(_sections())},
    }
    return {
        DOCS / f"{name}.md": render(f"{TEMPLATES}/{name}.md.j2", **values) + "\n"
        for name, values in made.items()
    }


def write(lab) -> list[Path]:
    changed = {path: text for path, text in pages(lab).items() if _differs(path, text)}
    for path, text in changed.items():
        path.write_text(text, encoding="utf-8")
    return [*changed]


def drift(lab) -> list[str]:
    """Return the names of the pages that are outdated."""
    return [path.name for path, text in pages(lab).items() if _differs(path, text)]


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text(encoding="utf-8") != text


def _panels(lab) -> Iterator[str]:
    panel = ""
    for name, command in lab.commands.items():
        title = getattr(command, "rich_help_panel", None)
        panel, before = title if isinstance(title, str) else "All commands", panel
        if panel != before:
            yield f"## {panel}"
        yield from _described(f"lab {name}", command)


def _described(name: str, command) -> Iterator[str]:
    yield f"### {name}"
    example = re.sub(r"^Example: (.+)$", r"Example: `\1`", command.epilog or "")
    params = [_parameter(param) for param in command.params if not _hidden(param)]
    parts = [inspect.cleandoc(command.help or ""), example, "\n".join(params)]
    yield "\n\n".join(part for part in parts if part)
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _described(f"{name} {inner}", subcommand)


def _hidden(param) -> bool:
    return getattr(param, "hidden", False) or param.name == "help"


def _parameter(param) -> str:
    """Format a parameter as a Markdown list item: its syntax, help and default."""
    what = [param.help] if param.help else []
    shown = param.show_default if isinstance(param.show_default, str) else param.default
    if type(shown) in (str, int, float) and shown != "":
        what.append(f"default: {shown}")
    return f"- `{_typed(param)}`" + (": " + "; ".join(what) if what else "")


def _typed(param) -> str:
    if param.param_type_name == "argument":
        return param.metavar or param.name.upper()
    names = ", ".join([*param.opts, *param.secondary_opts])
    kind = param.metavar or param.type.name.removesuffix(" range").upper()
    return names if param.is_flag else f"{names} {kind}"


def _sections() -> Iterator[str]:
    """Yield a Markdown table per section of the class `Settings`, under the section's comment."""
    title, rows = "", []
    for line in inspect.getsource(Settings).splitlines():
        comment = re.fullmatch(r"    # (.+)", line)
        field = re.match(r"    (\w+): .*(?:Field\($|Field\(.)", line)
        if comment:
            yield from _section(title, rows)
            title, rows = comment[1], []
        elif field:
            rows.append(_setting(field[1], Settings.model_fields[field[1]]))
    yield from _section(title, rows)


def _section(title: str, rows: list[str]) -> Iterator[str]:
    if rows:
        heading, _, note = title.partition(": ")
        yield f"## {heading}"
        if note:
            yield f"{note[0].upper()}{note[1:]}."
        yield "\n".join(["| variable | default | what it is |", "|---|---|---|", *rows])


def _setting(name: str, field: FieldInfo) -> str:
    default = COMPUTED[name] if field.default_factory else _default(field.default)
    return f"| `LAB_{name.upper()}` | {default} | {field.description} |"


def _default(value: Any) -> str:
    if isinstance(value, Path):
        return f"`{value.relative_to(REPOSITORY)}/`"
    if value in (None, "") or isinstance(value, SecretStr):
        return "not set"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
