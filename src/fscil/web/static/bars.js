// A bar per class. Few classes keep their places, so that the eye can rest; of many only the best are shown.
import { element, percent } from "./dom.js";

const UNKNOWN = "unknown";

export class Bars {
  static MOST = 12;

  constructor(list) {
    this.list = list;
    this.rows = new Map(); // name -> { row, fill, value }
  }

  show(verdict, classes) {
    const share = new Map(verdict.top.map((guess) => [guess.label, guess.confidence]));
    const few = classes.length <= Bars.MOST;
    const best = [...share.keys()].filter((name) => name !== UNKNOWN).slice(0, Bars.MOST - 4);
    this.place(few ? classes.map((each) => each.name) : best, share.has(UNKNOWN));
    for (const [name, parts] of this.rows) {
      const value = share.get(name) ?? 0;
      parts.fill.style.width = `${(value * 100).toFixed(1)}%`;
      parts.value.textContent = verdict.top.length ? percent(value) : "";
      parts.row.classList.toggle("best", name === verdict.label);
    }
  }

  place(names, unknown) {
    if (unknown || this.rows.has(UNKNOWN)) names = [...names, UNKNOWN];
    const same = names.length === this.rows.size && [...this.rows.keys()].every((name, index) => name === names[index]);
    if (same) return;
    const rows = new Map(names.map((name) => [name, this.rows.get(name) ?? makeRow(name)]));
    this.rows = rows;
    this.list.replaceChildren(...[...rows.values()].map((parts) => parts.row));
  }
}

function makeRow(name) {
  const fill = element("span", { class: "fill" });
  const value = element("span", { class: "value" });
  const row = element(
    "li",
    { class: name === UNKNOWN ? "none-of-them" : "" },
    element("span", { class: "name", title: name }, name),
    element("span", { class: "track", "aria-hidden": "true" }, fill),
    value,
  );
  return { row, fill, value };
}
