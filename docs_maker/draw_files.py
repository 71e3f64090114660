"""Which files a row of a table was made from."""

from fscil.results.grouping import Group


def draw_files(group: Group, root: str) -> str:
    """A link to the file of every draw."""
    links = (
        f"[{result.shots_seed}]({root}/{path.as_posix()})"
        for result, path in zip(group.results, group.files, strict=True)
    )
    return f"draw {', '.join(links)}"
