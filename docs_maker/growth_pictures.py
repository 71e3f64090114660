"""The part of docs/growth.md on projects that hold real pictures, from results/growth.json."""

from collections.abc import Mapping
from typing import Any

from docs_maker.curves import by_size, said, seconds, series
from fscil.pages.kit.table import markdown, table

COMMANDS = {
    "import": "`fscil teach init --from FOLDER`",
    "list": "`fscil teach list` (open)",
    "answer": "`fscil predict`, one picture (the first answer)",
    "add": "`fscil teach add`, a class",
    "undo": "`fscil teach undo`",
    "check": "`fscil teach check` (every row and picture)",
    "backup": "`fscil teach backup`",
    "restore": "`fscil teach restore`",
    "doctor": "`fscil doctor`",
}


def pictures_section(found: Mapping[str, Any]) -> str:
    points = found["points"]
    first, last = points[0], points[-1]
    extra = last["images"] - first["images"]
    each = (last["import"] - first["import"]) / extra
    memory = [
        [label, *(f"{point[f'{name}_mb']:,.0f}" if name in point else "–" for point in points)]
        for name, label in COMMANDS.items()
    ]
    bends = [
        f"- {label} {said(measured, 'images')}."
        for name, label in COMMANDS.items()
        if len(measured := series(points, "images", name)) > 1
    ]
    left_out = [label for name, label in COMMANDS.items() if name not in last]
    return "\n\n".join(
        [
            "## Projects of pictures, from the command line",
            "![What commands take by the pictures of a project](figures/growth-pictures.png)",
            f"{found['images_of_a_class']} pictures a class, each one different, of {found['side']} pixels a side; the "
            f"encoder is `{found['encoder']}`. Every command is a process of its own, and its start is counted: what "
            f"a command takes with {first['images']:,} images is mostly that. The class that is added has "
            f"{found['shots']} pictures.",
            markdown(by_size(points, "images", COMMANDS)),
            "\n".join(bends),
            "The most memory that each took, in MB:",
            markdown(table("", ["with images", *(f"{point['images']:,}" for point in points)], memory)),
            f"Taking a picture in costs {seconds(each)} of a processor: reading, decoding, the network, its file and "
            f"its row. With {last['images']:,} images the project takes {last['disk_mb']:,.0f} MB, its backup "
            f"{last['file_mb']:,.0f}, and the pictures that were given {last['given_mb']:,.0f}. Besides, it waits "
            "for the disk: every picture's file is flushed to it before the row that names it.",
            *([f"Not measured with so many: {', '.join(left_out)}."] if left_out else []),
        ]
    )
