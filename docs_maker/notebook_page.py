"""A notebook as a page of the site: its text, its code, and what it printed and drew when it was stored."""

import base64
import json
from pathlib import Path
from typing import Any


def notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Markdown, and the pictures it shows, by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source.strip():
            parts.append(f"```python\n{source}\n```")
            for output in cell["outputs"]:
                parts.append(_shown(output, path.stem, pictures))
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def _shown(output: dict[str, Any], stem: str, pictures: dict[str, bytes]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        name = f"{stem}-{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode("".join(data["image/png"]))
        return f"![What the cell drew]({name})"
    if "text/markdown" in data:
        return "".join(data["text/markdown"])
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"``` {{ .text .output }}\n{text.rstrip()}\n```" if text.strip() else ""
