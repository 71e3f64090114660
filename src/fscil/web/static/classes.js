// The classes: what they are called, what they look like, how to rename and remove them.
import { api } from "./api.js";
import { ask } from "./ask.js";
import { byId, element, plural, thumbnail } from "./dom.js";
import { near, tidy } from "./names.js";
import { failure, notice } from "./notice.js";
import { suggestNames } from "./suggestions.js";

const FEW = 100; // more classes than this are drawn when they come into sight; until then each is a name
const AHEAD = "400px 0px"; // of the sight

export class Classes {
  constructor(page) {
    this.page = page;
    this.open = null; // name of the class whose images are all shown
    this.newest = new Set();
    this.seen = null;
    this.near = new Set(); // of many classes those that are in sight, or nearly
    this.sight = null; // notices which are
  }

  async show() {
    const { classes, state } = this.page;
    const names = new Set(classes.map((each) => each.name));
    this.newest = this.seen ? new Set([...names].filter((name) => !this.seen.has(name))) : new Set();
    this.seen = names;
    if (!names.has(this.open)) this.open = null;
    byId("classes-count").textContent = classes.length || "";
    suggestNames(classes.map((each) => each.name));
    const all = this.open ? await api.images(this.open) : [];
    if (document.querySelector("#class-list input")) return; // a name is being typed: do not take the field away
    const list = byId("class-list");
    const scrolled = list.scrollTop;
    const many = classes.length > FEW;
    const rows = new Map(classes.map((each) => [this.row(each), each]));
    for (const [row, each] of rows) {
      if (!many || this.near.has(each.name) || this.newest.has(each.name) || this.open === each.name) this.fill(row, each, state.keeps_images, all);
    }
    list.classList.toggle("many", many);
    list.replaceChildren(...rows.keys());
    this.watch(list, many ? rows : new Map(), (row) => this.fill(row, rows.get(row), state.keeps_images, all));
    list.scrollTop = scrolled;
    const fresh = list.querySelector(".fresh");
    if (fresh) list.scrollTop = fresh.offsetTop - list.offsetTop;
    if (!classes.length) {
      list.append(element("li", { class: "none" }, "None yet. Draw something five times and give it a name."));
    }
  }

  // A class of which no more is drawn than its name.
  row(each) {
    const fresh = this.newest.has(each.name) ? " fresh" : "";
    const name = element("strong", { class: "class-name", title: each.name }, each.name);
    return element("li", { class: `class waiting${fresh}`, "data-class": each.name }, name);
  }

  watch(list, rows, fill) {
    this.sight?.disconnect();
    this.near.clear();
    const seen = (entries) => {
      for (const { target, isIntersecting } of entries) {
        this.near[isIntersecting ? "add" : "delete"](rows.get(target).name);
        if (isIntersecting && target.classList.contains("waiting")) fill(target);
      }
    };
    this.sight = new IntersectionObserver(seen, { root: list, rootMargin: AHEAD });
    for (const row of rows.keys()) this.sight.observe(row);
  }

  fill(row, each, keeps, all) {
    const open = this.open === each.name;
    const ids = open ? all.map((image) => image.id) : each.shown;
    const name = row.querySelector(".class-name");
    const strip = element(
      "div",
      { class: "strip" },
      ...ids.map((id, index) => {
        const label = `${each.name}, image ${index + 1}`;
        if (!open) return thumbnail(id, label, keeps);
        const cross = element("button", { type: "button", class: "cross", "aria-label": `Remove ${label}`, onclick: () => this.removeImage(id) });
        return element("span", { class: "frame filled" }, thumbnail(id, label, keeps), cross);
      }),
    );
    const tool = (kind, label, act) => element("button", { type: "button", class: `tool ${kind}`, "aria-label": label, title: label, onclick: act });
    row.classList.remove("waiting");
    row.classList.toggle("open", open);
    row.replaceChildren(
      element(
        "div",
        { class: "class-head" },
        name,
        element("button", {
          type: "button",
          class: "plain images",
          "aria-expanded": String(open),
          "aria-label": `${plural(each.images, "image")} of ${each.name}`,
          onclick: () => this.toggle(each.name),
        }, plural(each.images, "image")),
        element(
          "span",
          { class: "class-tools" },
          tool("add", `More images for ${each.name}`, () => this.page.teach.addTo(each.name)),
          tool("rename", `Rename ${each.name}`, () => this.rename(each.name, name)),
          tool("remove", `Remove ${each.name}`, () => this.forget(each.name)),
        ),
      ),
      strip,
    );
  }

  toggle(name) {
    this.open = this.open === name ? null : name;
    this.show().catch(failure);
  }

  rename(old, label) {
    const field = element("input", { class: "class-name", maxlength: "80", "aria-label": `New name for ${old}`, enterkeyhint: "done" });
    field.value = old;
    let finished = false;
    const finish = async (save) => {
      if (finished) return;
      finished = true;
      const wanted = tidy(field.value);
      field.replaceWith(label);
      if (!save || !wanted || wanted === old) return;
      try {
        const others = this.page.classes.map((each) => each.name).filter((name) => name !== old);
        const other = near(wanted, others);
        if (other && !(await ask(`There is a class “${other}” already`, [element("p", {}, `“${wanted}” is nearly the same name. Two such classes are easily mixed up.`)], [["Keep the old name", false], [`Rename to ${wanted}`, true]]))) return;
        await api.rename(old, wanted);
        if (this.open === old) this.open = wanted;
        await this.page.refresh();
        notice(`${old} is now ${wanted}.`, { undo: () => this.page.undo() });
      } catch (error) {
        failure(error);
      }
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault(); // it would press a button of the question that may come
        finish(true);
      }
      if (event.key === "Escape") finish(false);
    });
    field.addEventListener("blur", () => finish(true));
    label.replaceWith(field);
    field.select();
  }

  async forget(name) {
    try {
      await api.forget(name);
      await this.page.refresh();
      notice(`Removed ${name}.`, { undo: () => this.page.undo() });
    } catch (error) {
      failure(error);
    }
  }

  async removeImage(id) {
    try {
      await api.removeImage(id);
      await this.page.refresh();
      notice("Removed one image.", { undo: () => this.page.undo() });
    } catch (error) {
      failure(error);
    }
  }
}
