"""docs/growth.md: what costs grow with, from results/growth.json and results/devices.json, and where curves bend."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from docs_maker.curves import about, bend, by_size, of_method, said, seconds, series
from docs_maker.growth_pictures import pictures_section
from fscil.core.storage import read_json
from fscil.pages.kit.prose import listed
from fscil.pages.kit.table import markdown, table

STORED, DEVICES = "growth.json", "devices.json"


def growth_page(results: Path) -> str:
    found = read_json(results / STORED)
    parts: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "methods": _methods,
        "teach": _teach,
        "pictures": pictures_section,
        "page": _page,
        "images": _images,
    }
    lines = [_HEAD, *(parts[name](found[name]) for name in parts if name in found)]
    if (results / DEVICES).exists():
        lines.append(_devices(read_json(results / DEVICES)))
    return "\n\n".join(lines) + "\n"


_HEAD = """# Growth

What costs grow with, and where. Everything here is computed by `make docs` from `results/growth.json`, which
`python benchmarks/growth.py` writes (`growth.py teach` measures one part again), and `results/devices.json`, by
`python benchmarks/devices.py`. A curve *bends* where it reaches twice its first value; between two points it is taken
for a power law, so the place is no more exact than its two digits. One that grows in proportion from its first point on
has no flat part. Times are those of a processor on one thread, on a machine that did other things beside; times of a
method below a twentieth of a second are the shortest of several. What takes seconds until a person sees it (of the
page) was waited for on that machine, and is longer than on one that is idle."""


def _methods(found: Mapping[str, Any]) -> str:
    methods: Mapping[str, Any] = found["methods"]
    means = {name: each for name, each in methods.items() if each["means"]}
    others = {name: each for name, each in methods.items() if not each["means"]}
    flat = [each["title"] for each in means.values() if bend(of_method(each, "seconds")).at is None]
    bent = [
        f"{each['title']} {said(of_method(each, 'seconds'), 'classes')}"
        for each in means.values()
        if bend(of_method(each, "seconds")).at is not None
    ]
    scoring = [bend(of_method(each, "scoring_ms")) for each in means.values()]
    bends = [each.at for each in scoring if each.at is not None]
    lines = [
        "## Methods, by classes seen",
        "![A session's time by classes seen](figures/growth-methods.png)",
        f"Twenty base classes of made-up features ({found['width']} numbers), then others until so many are seen; what "
        "is timed is a session of five classes with five images, with the method's own settings. The goal for what "
        "remembers classes by means of features is a session that costs the same however many classes there are.",
        f"**Means of features: {len(flat)} of {len(means)} cost the same all the way** ({listed(flat)})."
        + (f" {'; '.join(bent)}." if bent else "")
        + " Rows of classes stand in a buffer with room behind them, so that a session writes its own and moves the "
        "others now and then only (`fscil.methods.rows`). To name an image every class must be looked at: "
        + (f"that doubles from {about(min(bends))} to {about(max(bends))} classes on, by method." if bends else "")
        + " Memory grows by what a class is: a row, or with FeCAM a matrix. The last three columns are of the largest "
        "number of classes that was reached: what the method keeps, what a session took of memory besides, and how "
        "long naming one image took of a hundred.",
        markdown(_method_table(means)),
        "**The others**, and what stops them. What is trained against all classes, or solved for all at once, costs "
        "more with each; a method that has not reached a column was ended there, after "
        f"{found['limit']} s of a processor or {found['memory'] >> 30} GiB. Sessions of methods that tune a network "
        "(†, here a tiny one) are of two updates or epochs, not of the hundreds that they ask for.",
        markdown(_method_table(others)),
        *_reasons(others),
    ]
    return "\n\n".join(lines)


# Why a session costs more with the classes seen: by what the code does, beside what was measured.
WHY = {
    "lda": "one covariance of all classes changes with every session, and with it the weights of all",
    "ridge": "one Gram matrix of all classes changes with every session, and with it the weights of all",
    "ranpac": "as ridge regression, on a wide random layer (1,000 here, 10,000 by default)",
    "sppr": "all prototypes are mixed with all others",
    "c-fscil": "the layer is realigned to the vectors of all classes",
    "nc-fscil": "the frame has at most 512 directions",
    "s3c": "a softmax over all classes in every update, with one stored prototype of each",
    "subspace-reg": "a softmax over all classes, and an image of each, in every update",
    "yourself": "a softmax over all classes in every update, and samples of each from a covariance of its own",
    "orco": "images of all classes are seen again, against targets for all",
    "finetune": "a softmax over all classes in every update",
    "joint": "all images of all classes are learned again",
    "icarl": "images of all classes are learned again",
    "topic": "a softmax over all classes in every update",
    "idlvq": "an image of every class is seen in every update",
    "df-replay": "a generator is trained against all classes before every session",
    "softnet": "distances to all prototypes in every update",
    "bidist": "an image of every class, and layers as wide as there are classes",
    "dsn": "a covariance of every class, factored and drawn from",
}


def _reasons(methods: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, each in methods.items():
        points = of_method(each, "seconds")
        if not points:
            what = "was not reached at all"
        elif len(points) == 1:
            what = f"{seconds(points[0][1])} with {points[0][0]:,.0f} classes"
        else:
            what = said(points, "classes")
        stop = f" Ended at {each['stopped_at']:,} classes: {_sentence(each['stopped'])}." if each["stopped"] else ""
        why = WHY.get(name, "")
        reason = f" ({why})" if why and (stop or (len(points) > 1 and bend(points).at is not None)) else ""
        lines.append(f"- {each['title']}{'†' if each['tunes'] else ''}: {what}{reason}.{stop}")
    return ["\n".join(lines)]


def _sentence(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}" if not text[:2].isupper() else text


def _method_table(methods: Mapping[str, Any]) -> Any:
    sizes = sorted({int(x) for each in methods.values() for x, _ in of_method(each, "seconds")})
    head = [
        "a session of five classes after",
        *(f"{size:,}" for size in sizes),
        "kept after the last",
        "beside it, in a session",
        "one image",
    ]
    rows = []
    for each in methods.values():
        taken, last = dict(of_method(each, "seconds")), each["points"][-1] if each["points"] else None
        kept = f"{about(last['state_mb'])} MB" if last else "–"
        if last and last["kept_images"]:
            kept += f", {last['kept_images']:,} images"
        named = seconds(last["scoring_ms"] / 1e3) if last else "–"
        title = f"{each['title']}{'†' if each['tunes'] else ''}"
        own = f"{last['peak_mb']:,} MB" if last else "–"
        rows.append([title, *(seconds(taken.get(size)) for size in sizes), kept, own, named])
    return table("", head, rows)


def _teach(found: Mapping[str, Any]) -> str:
    names = {
        "learn": "learn a class of five pictures",
        "undo": "undo it",
        "answer": "name a picture",
        "first_answer": "name a picture, the first after a change",
        "open": "open (every row is checked)",
        "open_and_answer": "open, and name a picture",
        "check": "`fscil teach check`",
        "list": "list the classes",
        "doctor": "`fscil doctor`",
    }
    points = found["points"]
    lines = [f"- {label} {said(series(points, 'images', name), 'images')}." for name, label in names.items()]
    last = points[-1]
    waits = (
        f"Learning and undoing also wait for the disk: with {last['images']:,} images a class was learned after "
        f"{seconds(last['learn_wall'])} at best, and undone after {seconds(last['undo_wall'])}. "
        f"The project takes {last['disk_mb']:,.0f} MB there without pictures, and {last['peak_mb']:,.0f} MB of memory "
        "when it is opened and asked."
    )
    return "\n\n".join(
        [
            "## Projects, by images",
            "![What a project's commands take by its images](figures/growth-teach.png)",
            f"{found['images_of_a_class']} images a class; made-up features fill a project through the real store, and "
            "real pictures are then learned and named by the network that comes with the package.",
            markdown(by_size(points, "images", names)),
            "\n".join(lines),
            waits,
            f"It went no further: {found['stopped']}."
            if found.get("stopped")
            else f"More than {last['images']:,} images were not measured in this way.",
        ]
    )


def _page(found: Mapping[str, Any]) -> str:
    points, first, last = found["points"], found["points"][0], found["points"][-1]
    names = {
        "state": "`/api/state`",
        "list": "`/api/classes`",
        "map": "`/api/map`",
        "doctor": "`/api/doctor`",
        "predict": "`/api/predict`, one picture",
    }
    shown = {
        "usable": "until the classes are shown, s",
        "checked": "until the check-up is shown, s",
        "elements": "elements of the page",
        "height": "height of the page, pixels",
        "frame_ms": "a frame while scrolling, ms (median)",
        "slowest_frame_ms": "the slowest frame, ms",
        "typing_ms": "a letter into the field for the name, ms",
        "heap_mb": "memory of its scripts, MB",
    }
    sizes = [point["classes"] for point in points]
    rows = [[label, *(_amount(point[name]) for point in points)] for name, label in shown.items()]
    sent = [[f"{label}, kB", *(_amount(point[f"{name}_kb"]) for point in points)] for name, label in names.items()
            if f"{name}_kb" in last]  # fmt: skip
    total = sum(last[f"{name}_kb"] for name in ("list", "map", "doctor"))
    return "\n\n".join(
        [
            "## The page, by classes",
            "![What the page's requests take by classes](figures/growth-page.png)",
            f"{found['images_of_a_class']} pictures a class, kept. What the server computes for a request:",
            markdown(by_size(points, "classes", names)),
            "\n".join(
                f"- {label} {said(series(points, 'classes', name), 'classes')}." for name, label in names.items()
            ),
            "What is sent, and what headless Chromium makes of it:",
            markdown(table("", ["with classes", *(f"{size:,}" for size in sizes)], [*sent, *rows])),
            f"After every change the page asks for classes, map and check-up anew: {total:,.0f} kB with "
            f"{last['classes']:,} classes (above 200 the check-up only when asked for). What is out of sight is "
            f"no more than a name: the page has {last['elements']:,} elements, "
            f"{last['elements'] / first['elements']:,.0f} times as many as with {first['classes']}.",
        ]
    )


def _amount(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else about(number)


def _images(found: Mapping[str, Any]) -> str:
    names = {
        "listing": "list the folder",
        "stamp": "names, lengths and times, hashed",
        "decoding": "decode, with the hash of every file (once)",
        "opening": "open it again (listed, and every image checked)",
        "session": "make the base session",
        "epoch": "first epoch of a tiny network",
    }
    points = found["points"]
    last = [point for point in points if "decoding" in point][-1]
    rate = last["images"] / last["decoding"]
    beyond = f"More than {points[-1]['images']:,} images were not listed"
    if last is not points[-1]:
        beyond += f", and more than {last['images']:,} not decoded"
    most = max(last[f"{name}_mb"] for name in names)
    return "\n\n".join(
        [
            "## Data sets, by images in a folder",
            "![What a folder of images takes by their number](figures/growth-images.png)",
            f"{found['images_of_a_class']:,} images a class, of {found['side']} pixels a side. Their names are hard "
            f"links to {found['files']} files, so what is read comes from memory: how fast a disk is, is not in these "
            "numbers.",
            markdown(by_size(points, "images", names)),
            "\n".join(f"- {label}: {said(series(points, 'images', name), 'images')}." for name, label in names.items()),
            f"{beyond}. The most were decoded at {rate:,.0f} a second of a "
            f"processor, took {last['cache_mb']:,.0f} MB decoded and at most {most:,.0f} MB of memory; their first "
            f"epoch went over the {last['base_images']:,} training images of the base classes.",
        ]
    )


def _devices(found: Mapping[str, Any]) -> str:
    rows = [
        [f"{each['epochs']}", f"{each['steps']}", *(f"{value:.1f}" for value in each["seconds"]),
         f"{each['share']:.1e}", f"{each['loss']:.1e}"]
        for each in found["trainings"]
    ]  # fmt: skip
    head = ["epochs", "updates", "one process, s", "two, s", "weights apart (share)", "losses apart, at most"]
    again = [
        f"begun with {each['before']} and killed (-9) after update {each['step']}, continued with {each['after']}: "
        f"weights {each['share']:.1e} apart from those of one process that ran through"
        for each in found["resumed"]
    ]
    return "\n\n".join(
        [
            "## Base training on several devices",
            "`--set devices=2` trains on two processes by Fabric's `ddp`. Each takes its half of every batch, with the "
            f"augmentation of the whole, so only sums are rounded otherwise. The recipe `{found['recipe']}` on a CPU, "
            "one thread a process:",
            markdown(table("", head, rows)),
            "The longer a training, the more it makes of a rounding. The number of devices is no part of what a "
            "training is, so a killed one goes on with another number:",
            "\n".join(f"- {each}." for each in again),
            "On several machines torchrun starts the processes, as many on each as it has devices, with one output "
            "folder that all of them see: `torchrun --nnodes 2 --nproc-per-node 4 --node-rank 0 --master-addr HOST "
            "--master-port 29500 -m fscil train RECIPE --out FOLDER`, and `--node-rank 1` on the second. A test trains "
            "so with two processes that take themselves for two machines.",
            "The times are of a machine with two cores that others used, and say nothing of what two devices gain. "
            "Several GPUs, and machines with a network between them, were not at hand: nothing was measured there.",
        ]
    )
