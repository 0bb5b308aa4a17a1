"""The frame and the style sheet of Harpe's pages, filled here as the command fills them: both are files of its report room."""

import html
import pathlib
import re
import shlex

HERE = pathlib.Path(__file__).resolve().parent
PARTS = HERE / "page"  # in an installed copy
if not PARTS.exists():
    PARTS = HERE.parent / "src" / "harpe" / "report" / "page"
STYLE = (PARTS / "page.css").read_text(encoding="utf-8")
PALETTE = STYLE[:STYLE.index("/* End of the palette. */")]


def fill(text, values):
    """Replaces each {{name}} with its value, in one pass: values are not searched again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found.group(1)], text)


def framed_page(title, subtitle, banner, body, program, command, inputs, documentation):
    """Title, subtitle and banner are text, the body is markup. Inputs are (name, digest or "")."""
    named = "; ".join(html.escape(name) + (f" <code>{digest}</code>" if digest else "") for name, digest in inputs)
    return fill((PARTS / "frame.html").read_text(encoding="utf-8"), {
        "policy": "", "style": STYLE, "title": html.escape(title), "subtitle": html.escape(subtitle),
        "banner": f'<p class="banner" role="note">{html.escape(banner)}</p>\n', "body": body, "notes": "",
        "program": html.escape(program), "command": html.escape(shlex.join(command)),
        "inputs": f"<p><b>Inputs.</b> {named}</p>\n", "documentation": html.escape(documentation), "end": ""})


def digest(text):
    """Returns the 64-bit FNV-1a digest in the format of the command."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"fnv1a64:{value:016x}"
