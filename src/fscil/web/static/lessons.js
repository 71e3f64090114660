// Many classes at once, from folders or a zip: first what would be learned, then portion by portion, with a way to stop.
import { api } from "./api.js";
import { byId, element, plural } from "./dom.js";
import { byClass } from "./folders.js";
import { near, tidy } from "./names.js";
import { failure } from "./notice.js";

const PORTION = 16; // pictures in one request
const PORTION_BYTES = 24_000_000;
const MOST_CLASSES = 500;
const SAID = 50; // pictures left out that are named
const PATIENCE = 5; // times that a busy server is asked again

export class Lessons {
  constructor(page) {
    this.page = page;
    this.panel = byId("lessons");
    this.running = false;
  }

  // What lies in folders is offered; one class that fits into a lesson goes to the frames, by `single`.
  async offer(pictures, single) {
    if (this.running) throw new Error("Folders are being learned; wait until that is done, or stop it.");
    const { classes, loose } = byClass(pictures);
    if (!classes.size) throw new Error("There are no pictures in folders; put those of each class into a folder of its name.");
    if (classes.size > MOST_CLASSES) throw new Error(`More than ${MOST_CLASSES} classes at once are too many; give the folders in several portions.`);
    const [[name, first]] = classes;
    if (classes.size === 1 && !loose && first.length <= this.page.state.limits.images) {
      const read = await Promise.allSettled(first.map((picture) => picture.read()));
      if (read.every((each) => each.value)) {
        this.panel.hidden = true;
        return single(tidy(name), read.map((each) => each.value));
      }
    }
    this.showPlan(classes, loose);
  }

  showPlan(classes, loose) {
    const known = this.page.classes.map((each) => each.name);
    const plan = [...classes].map(([folder, pictures]) => {
      const name = tidy(folder);
      const other = near(name, known);
      if (!other && !known.includes(name)) known.push(name);
      return { name, other, pictures };
    });
    const count = plan.reduce((sum, each) => sum + each.pictures.length, 0);
    const rows = plan.map((each) => {
      const row = element("li", {}, element("strong", {}, each.name), element("span", { class: "quiet" }, ` ${plural(each.pictures.length, "picture")}`));
      if (each.other) {
        const choose = (event) => (each.chosen = event.target.value);
        each.chosen = each.other;
        row.append(
          element("select", { "aria-label": `${each.name} is nearly ${each.other}`, onchange: choose },
            element("option", { value: each.other }, `add to ${each.other}`),
            element("option", { value: each.name }, "a class of its own")),
        );
      }
      return row;
    });
    const learn = element("button", { type: "button", class: "go", onclick: () => this.learn(plan, count).catch(failure) }, `Learn ${plural(plan.length, "class", "classes")}`);
    this.show(
      element("p", {}, element("strong", {}, `${plural(plan.length, "class", "classes")}, ${plural(count, "picture")}`)),
      loose ? element("p", { class: "quiet" }, `${plural(loose, "picture")} beside the folders ${loose === 1 ? "is" : "are"} left out.`) : null,
      element("ul", { class: "plan", tabindex: "0", "aria-label": "What would be learned" }, ...rows),
      element("div", { class: "row" }, learn, element("button", { type: "button", class: "plain", onclick: () => this.close() }, "Cancel")),
    );
    learn.focus({ preventScroll: true });
    this.panel.scrollIntoView({ behavior: "smooth", block: "nearest" });
  }

  async learn(plan, count) {
    const bar = element("progress", { max: String(count), value: "0", "aria-label": "Pictures looked at" });
    const said = element("p", { class: "quiet" });
    const result = { pictures: 0, classes: new Set(), left: [] };
    this.running = this.page.resting = true; // the rest of the page looks when all is learned
    this.show(element("p", {}, element("strong", {}, "Learning…")), bar, said, element("div", { class: "row" },
      element("button", { type: "button", onclick: () => (this.running = false) }, "Stop")));
    let done = 0;
    try {
      for (const { name, chosen, pictures } of plan) {
        for (const portion of portions(pictures)) {
          if (!this.running) break;
          said.textContent = `${chosen ?? name}: ${done} of ${count} pictures`;
          await this.learnPortion(chosen ?? name, portion, result);
          done += portion.length;
          bar.value = done;
        }
      }
    } catch (error) {
      failure(error); // what was learned until now stays
    }
    const stopped = done < count;
    this.running = this.page.resting = false;
    await this.page.refresh();
    this.tell(result, stopped);
  }

  async learnPortion(name, pictures, result) {
    const files = [];
    for (const picture of pictures) {
      try {
        files.push(await picture.read());
      } catch (error) {
        result.left.push({ file: picture.path, reason: error.message });
      }
    }
    if (files.length) await this.send(name, files, result);
  }

  async send(name, files, result, again = 0) {
    try {
      const lesson = await api.learn(name, files);
      result.classes.add(lesson.name);
      result.pictures += lesson.added;
      result.left.push(...inFolder(name, lesson.skipped));
    } catch (error) {
      if (error.status === 503 && again < PATIENCE) {
        await new Promise((resolve) => setTimeout(resolve, 1000 * (again + 1)));
        return this.send(name, files, result, again + 1);
      }
      if (error.status === 413 && files.length > 1) {
        const half = files.length >> 1; // too many pixels together
        await this.send(name, files.slice(0, half), result);
        return this.send(name, files.slice(half), result);
      }
      if (!error.status || error.status >= 500) throw error;
      if (error.skipped?.length) result.left.push(...inFolder(name, error.skipped));
      else result.left.push({ file: `${name}, ${plural(files.length, "picture")}`, reason: error.message });
    }
  }

  tell({ pictures, classes, left }, stopped) {
    const learned = pictures ? `Learned ${plural(classes.size, "class", "classes")} from ${plural(pictures, "picture")}.` : "Nothing was learned.";
    this.show(
      element("p", {}, element("strong", {}, learned), stopped ? " Stopped before the end; what was learned stays." : ""),
      left.length
        ? element("details", {}, element("summary", {}, `${left.length} left out`),
            element("ul", { class: "left-out", tabindex: "0", "aria-label": "Pictures left out" }, ...left.slice(0, SAID).map((each) => element("li", {}, `${each.file}: ${each.reason}`)),
              left.length > SAID ? element("li", {}, `and ${left.length - SAID} more`) : null))
        : null,
      element("div", { class: "row" }, element("button", { type: "button", onclick: () => this.close() }, "Close")),
    );
  }

  show(...parts) {
    this.panel.replaceChildren(...parts.filter(Boolean));
    this.panel.hidden = false;
  }

  close() {
    this.panel.hidden = true;
    this.panel.replaceChildren();
    byId("teach-name").focus({ preventScroll: true });
  }
}

const inFolder = (name, skipped) => skipped.map(({ file, reason }) => ({ file: `${name}/${file}`, reason }));

function* portions(pictures) {
  let [portion, bytes] = [[], 0];
  for (const picture of pictures) {
    if (portion.length === PORTION || (portion.length && bytes + picture.size > PORTION_BYTES)) {
      yield portion;
      [portion, bytes] = [[], 0];
    }
    portion.push(picture);
    bytes += picture.size;
  }
  if (portion.length) yield portion;
}
