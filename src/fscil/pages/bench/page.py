"""bench.html: one self-contained page in the look of the report."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.pages.bench import figures, tables, words
from fscil.pages.kit.looks import Style, method_styles
from fscil.pages.kit.markup import Html, element, join, signed
from fscil.pages.kit.svg import swatch
from fscil.pages.report.glossary import TERMS
from fscil.pages.report.page import whole_page
from fscil.pages.report.sections import figure, scrolling, section
from fscil.results.bench import HEADLINE, SCORES, Bench, Row
from fscil.results.significance import Comparison, compare

_NARROW = "min-width:620px"  # a wide figure scrolls on a phone instead of shrinking beyond reading


def bench_html(bench: Bench) -> str:
    """The page as text; the same bench gives the same text."""
    main = element(
        "main",
        _opening(bench),
        _overview(bench),
        _comparison(bench),
        _curves(bench),
        _rankings(bench),
        _significance(bench),
        _floor(bench),
        _cost(bench),
        _left_out(bench),
        _settings(bench),
        section("words", "How to read this", _glossary()),
    )
    draws = sum(len(row.draws) for row in bench.rows)
    footer = element("footer", element("p", f"Made by fscil bench from {draws} result files."))
    return whole_page(f"{len(bench.rows)} methods on {bench.dataset}", main, footer)


def _opening(bench: Bench) -> Html:
    return element(
        "header",
        element("p", f"Few-shot class-incremental learning on {bench.dataset}: methods compared", class_="eyebrow"),
        element("h1", f"{words.headline(bench)}."),
        element("p", words.lede(bench), " ", element("a", "What the words mean", href="#words"), class_="lede"),
    )


def _overview(bench: Bench) -> Html:
    novel = bench.classes[1:]
    ways = f"{novel[0]}" if len(set(novel)) == 1 else f"{min(novel)} to {max(novel)}"
    plan = (
        f"{bench.classes[0]} base classes from many images each, then {len(novel)} sessions of {ways} new classes from "
        f"{bench.shot} image{'s' if bench.shot > 1 else ''} each. "
    ) * bool(novel)
    text = (
        f"{plan}Ordered by gAcc. The shorter the line, the more alike old and new classes are recognised. The dashed "
        f"lines are the gAcc of plain class means ({bench.title(bench.baseline)}) and of learning nothing "
        f"({bench.title(bench.floor)}); bars are one standard deviation."
    )
    entries = [
        element("li", swatch(style, line=False), figures.GROUP_WORDS[key])
        for key, style in figures.GROUP_STYLES.items()
    ]
    picture = figures.overview_figure(bench, bench.ranking(HEADLINE))
    return section(
        "overview",
        "At a glance",
        element("p", text),
        element("ul", *entries, class_="legend"),
        _wide("Accuracies of all methods", picture),
    )


def _comparison(bench: Bench) -> Html:
    gaps = {c.method: c for c in compare(bench, bench.baseline, HEADLINE)}
    first, *others = tables.score_columns(bench)
    labels = ["best gAcc first", first.label, "to class means", *(column.label for column in others)]
    heads = [element("th", label, scope="col") for label in labels]
    rows = []
    for row in tables.ordered(bench):
        gap = gaps.get(row.method)
        cells = [_value(bench, row, first), element("td", None if gap is None else _gap(gap))]
        rows.append(element("tr", _name(row), *cells, *(_value(bench, row, column) for column in others)))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="comparison")
    several = any(len(row.draws) > 1 for row in bench.rows)
    text = (
        f"In percent{', mean and one standard deviation over the draws' * several}; bold is the best mean. The second "
        "column is the difference in gAcc to plain class means, ▲ or ▼ where it is clear. gAcc comes in two variants "
        "that must not be compared with each other; published values are of the grid."
    )
    control = (
        "The last column is the gAcc (grid) of plain class means on the network that the method's own base training "
        "made: what lies between the two is what the method itself adds."
    )
    return section(
        "comparison",
        "The comparison",
        element("p", text),
        element("p", control) if len(bench.networks) > 1 else None,
        scrolling("Comparison of the methods", table),
    )


def _name(row: Row) -> Html:
    facts = ", ".join(filter(None, (str(row.year or ""), row.recipe)))
    return element("th", element("strong", row.title), element("span", facts), scope="row")


def _value(bench: Bench, row: Row, column: tables.Column) -> Html:
    mean, deviation = tables.cell_text(column, tables.cell(bench, row, column.key))
    kind = "b" if row.method in tables.best(bench, column) else "span"
    parts = [element(kind, mean, class_="mean")]
    if deviation:
        parts.append(element("span", f"± {deviation}", class_="change"))
    return element("td", *parts, data_metric=column.key, data_method=row.method)


def _gap(gap: Comparison) -> Html:
    kind, sign, word = "unclear", "", ""
    if gap.clear:
        kind, sign, word = ("good", "▲ ", "better: ") if gap.mean > 0 else ("bad", "▼ ", "worse: ")
    hidden = element("span", word, class_="unseen") if word else None
    mark = element("span", sign, aria_hidden="true") if sign else None
    return element("span", mark, hidden, signed(gap.mean), class_=f"change {kind}", style="font-size:15px")


def _curves(bench: Bench) -> Html:
    methods = bench.ranking(HEADLINE)
    styles = method_styles(methods)
    text = (
        "How much should an old class count beside a new one? At the left end only new classes count, at the right end "
        "every class counts alike, which is aAcc. gAcc is the area under the curve, so it does not choose. The number "
        "beside a name is that area, the exact gAcc. The curve of learning nothing may start below the picture."
    )
    return section(
        "curves",
        "Old against new",
        element("p", text),
        _legend(bench, methods, styles),
        _wide("gAcc over the weight of base classes", figures.curves_figure(bench, methods, styles)),
    )


def _rankings(bench: Bench) -> Html | None:
    if len(bench.rows) < 3:
        return None
    question = (
        "aAcc is the usual score. Base classes are many, so it hardly notices how the new ones fare. gAcc does: a "
        "method that only remembers falls."
    )
    lines = [element("li", line) for line in words.ranking_words(bench)]
    entries = [
        element("li", swatch(Style(role, "o")), text)
        for role, text in (
            ("c2", "gains two places or more"),
            ("c0", "loses as many"),
            ("muted", "moves by one at most"),
        )
    ]
    picture = element("figure", figures.slope_figure(bench), style="min-width:480px;max-width:680px")
    return section(
        "ranking",
        "Two rankings",
        element("p", question),
        element("ul", *lines) if lines else None,
        element("ul", *entries, class_="legend"),
        scrolling("Ranks by aAcc and by gAcc", picture),
    )


def _significance(bench: Bench) -> Html | None:
    families = {key: _in_order(bench, compare(bench, bench.baseline, key)) for key in (HEADLINE, "aacc")}
    if not families[HEADLINE]:
        return None
    pictures = [figure(SCORES[key], figures.differences_figure(bench, family, key)) for key, family in families.items()]
    entries = [
        element("li", swatch(style, line=False), text)
        for style, text in (
            (Style("c2", "o"), "clearly above"),
            (Style("c0", "o"), "clearly below"),
            (Style("muted", "o", hollow=True), "not told apart"),
        )
    ]
    return section(
        "significance",
        "More than luck?",
        element("p", words.method_words(bench)),
        element("ul", *entries, class_="legend"),
        element("div", *pictures, class_="pair"),
        element(
            "details", element("summary", "The numbers"), _table(*tables.significance_table(bench, bench.baseline))
        ),
    )


def _in_order(bench: Bench, comparisons: Sequence[Comparison]) -> list[Comparison]:
    """By gAcc, without the floor: its distance would squeeze all others into a corner."""
    order = bench.ranking(HEADLINE)
    return sorted((c for c in comparisons if c.method != bench.floor), key=lambda c: order.index(c.method))


def _floor(bench: Bench) -> Html | None:
    said = words.floor_words(bench)
    if not said:
        return None
    text = (
        f"Two lines that a method should not fall below: {bench.title(bench.floor)} keeps the base classifier and "
        f"never predicts a new class; {bench.title(bench.baseline)} takes the mean of a class's features and learns "
        "nothing else."
    )
    return section("floor", "Who falls below", element("p", text), element("ul", *(element("li", s) for s in said)))


def _cost(bench: Bench) -> Html:
    return section(
        "cost",
        "What it cost",
        element("p", words.cost_words(bench)),
        _table(*tables.costs_table(bench)),
        element("p", words.networks_words(bench), style="margin-top:20px"),
        _table(*tables.networks_table(bench)),
    )


def _left_out(bench: Bench) -> Html | None:
    if not bench.left_out:
        return None
    lines = [element("li", element("strong", method), f": {why}") for method, why in bench.left_out.items()]
    return section("left-out", "Not in the comparison", element("ul", *lines))


def _settings(bench: Bench) -> Html:
    known = bench.hardware
    machine = ", ".join(
        str(part)
        for part in (
            known.get("name"),
            known.get("device"),
            f"{known['cores']} cores" if known.get("cores") else "",
            f"torch {known['torch']}" if known.get("torch") else "",
        )
        if part
    )
    mode = "all methods on one network" if bench.same_backbone else "every method with its own base training"
    facts = {"Mode": mode, "Hardware": machine or "not recorded", "Code": f"commit {bench.commit or 'not recorded'}"}
    lines = [element("div", element("dt", name), element("dd", text)) for name, text in facts.items()]
    options = "\n".join(f"{row.method}.{name} = {value}" for row in bench.rows for name, value in row.options.items())
    papers = [element("li", f"{row.title}: {row.paper}. {_sentence(row.differences)}") for row in bench.rows]
    return section(
        "settings",
        "Methods and settings",
        element("dl", *lines, class_="facts"),
        element("details", element("summary", "Papers, and known differences"), element("ul", *papers)),
        element("details", element("summary", "Options of every method"), element("pre", options, tabindex="0")),
    )


def _glossary() -> Html:
    """The report's words as far as they are used here; what is clear is judged otherwise there."""
    used = {"Base and new classes", "Session", "Draw", "Accuracy", "aAcc", "gAcc", "gAcc, grid or exact", "hAcc"}
    terms = [(term, meaning) for term, meaning in TERMS if term in used]
    terms.append(("Last", "Accuracy on all classes after the last session: lAcc in other tables."))
    terms.append(("±", "One standard deviation over draws."))
    terms.append(("Clear", "A difference whose p-value, corrected for many comparisons, is below 0.05."))
    pairs = [element("div", element("dt", term), element("dd", meaning)) for term, meaning in terms]
    return element("dl", *pairs, class_="glossary")


def _sentence(words_: str) -> str:
    return f"{words_[:1].upper()}{words_[1:]}." if words_ else ""


def _legend(bench: Bench, methods: Sequence[str], styles: dict[str, Style]) -> Html:
    entries = [element("li", swatch(styles[method]), bench.title(method)) for method in methods]
    return element("ul", *entries, class_="legend")


def _wide(label: str, picture: Html) -> Html:
    return scrolling(label, element("figure", picture, style=_NARROW))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    heads = [element("th", text, scope="col") for text in header]
    lines = [
        element("tr", element("th", row[0], scope="row"), *(element("td", join(text)) for text in row[1:]))
        for row in rows
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    return scrolling(header[0], table)
