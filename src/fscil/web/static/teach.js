// Teach: examples from the pen, from files or from the camera; a name; learned.
import { api } from "./api.js";
import { meant } from "./ask.js";
import { Camera } from "./camera.js";
import { byId, element, percent, plural } from "./dom.js";
import { takeDrops } from "./drops.js";
import { fromEntries, fromInput, isZip } from "./folders.js";
import { Frames } from "./frames.js";
import { Lessons } from "./lessons.js";
import { tidy } from "./names.js";
import { failure, notice } from "./notice.js";
import { Pad } from "./pad.js";
import { Record } from "./record.js";
import { readZip } from "./unzip.js";

const SOURCES = ["draw", "pictures", "camera"];
const NAMED = 4; // pictures left out whose reasons are told

export class Teach {
  constructor(page) {
    this.page = page;
    this.busy = false;
    this.pad = new Pad(byId("teach-pad"), () => this.update());
    this.hint = [...byId("lesson").childNodes];
    this.told = null; // what the panel below speaks of
    this.camera = new Camera(byId("teach-video"), () => this.update(), (error) => this.withoutCamera(error));
    this.lessons = new Lessons(page);
    this.frames = new Frames(() => page.state?.limits.images ?? 64, () => this.update());
    this.record = new Record(byId("keep"), {
      take: () => this.keep(),
      ready: () => this.source === "camera" && this.camera.ready && this.room > 0,
      changed: () => this.update(),
    });
    byId("keep").addEventListener("click", () => this.record.spent || this.keep().catch(failure));
    byId("teach-clear").addEventListener("click", () => this.pad.clear());
    byId("teach-pick").addEventListener("click", () => byId("teach-files").click());
    byId("teach-files").addEventListener("change", (event) => {
      this.take([...event.target.files]);
      event.target.value = "";
    });
    byId("teach-pick-folder").addEventListener("click", () => byId("teach-folder").click());
    byId("teach-folder").addEventListener("change", (event) => {
      const files = [...event.target.files];
      event.target.value = "";
      this.takeMany(() => fromInput(files));
    });
    takeDrops(byId("teach"), (files, entries) => (entries ? this.takeMany(() => fromEntries(entries)) : this.take(files)));
    byId("teach-name").addEventListener("input", () => this.update());
    byId("teach-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.learn().catch(failure);
    });
    for (const input of document.getElementsByName("source")) {
      input.addEventListener("change", () => this.choose(input.value).catch((error) => this.withoutCamera(error)));
    }
    this.source = "draw";
    this.update();
  }

  async choose(source) {
    this.source = source;
    for (const each of SOURCES) byId(`teach-${each}`).hidden = each !== source;
    this.camera.stop();
    this.update();
    if (source === "camera") await this.camera.start();
    this.update();
  }

  withoutCamera(error) {
    failure(error);
    document.querySelector('input[name="source"][value="pictures"]').checked = true;
    this.choose("pictures");
  }

  get room() {
    return (this.page.state?.limits.images ?? 64) - this.frames.images.length;
  }

  take(files) {
    const zip = files.find(isZip);
    if (zip) {
      if (files.length > 1) notice("One zip at a time, please; the first is taken.");
      this.takeMany(() => readZip(zip));
      return;
    }
    const left = this.frames.add(...files);
    if (left) notice(`${plural(left, "picture")} too many for one lesson; teach the rest afterwards.`);
    byId("teach-name").focus({ preventScroll: true });
  }

  // Pictures of many classes.
  async takeMany(find) {
    try {
      await this.lessons.offer(await find(), (name, files) => {
        this.take(files);
        byId("teach-name").value = name;
        this.update();
      });
    } catch (error) {
      failure(error);
    }
  }

  // Puts what is on the sheet, or before the camera, into the next frame.
  async keep() {
    if (this.source === "camera") {
      if (!this.camera.ready) return;
      if (this.frames.add(await this.camera.picture())) notice("That is as much as one lesson takes; teach it, then go on.");
    }
    else if (!this.pad.empty) {
      const picture = this.pad.picture();
      this.pad.clear();
      this.frames.add(await picture);
    }
  }

  async learn() {
    const given = tidy(byId("teach-name").value);
    if (this.busy || !given) return;
    if (this.source === "draw") await this.keep(); // the last drawing need not be kept by hand
    if (!this.frames.images.length) return;
    this.busy = true;
    this.update();
    try {
      const name = await meant(given, this.page.classes.map((each) => each.name));
      if (name === null) return;
      const lesson = await api.learn(name, this.frames.images);
      this.frames.settle(lesson.skipped);
      byId("teach-name").value = "";
      await this.page.refresh();
      this.tell(lesson);
    } catch (error) {
      if (error.skipped?.length) this.refused(error.skipped);
      throw error;
    } finally {
      this.busy = false;
      this.update();
    }
  }

  tell(lesson) {
    this.told = { names: [lesson.name, ...lesson.rivals.map((rival) => rival.name)], images: this.imagesOf(lesson.name) };
    const parts = [
      element("p", {}, "Learned ", element("strong", {}, lesson.name), ` from ${plural(lesson.added, "image")} in ${seconds(lesson.seconds)}.`),
    ];
    if (lesson.skipped.length) parts.push(...leftOut(`Without ${plural(lesson.skipped.length, "image")}, marked above:`, lesson.skipped));
    if (lesson.rivals.length) {
      const rivals = lesson.rivals.slice(0, 3).map((rival) => element("li", {}, element("strong", {}, rival.name), ` ${percent(rival.similarity)}`));
      parts.push(element("p", { class: "quiet" }, "Now competes with"), element("ul", { class: "rivals", "aria-label": "Classes it now competes with" }, ...rivals));
    }
    byId("lesson").replaceChildren(...parts);
  }

  // Not one picture could be used. Their reasons may differ, and the notice has room for one of them.
  refused(skipped) {
    this.frames.settle(skipped);
    this.told = null;
    byId("lesson").replaceChildren(...leftOut("Nothing was learned:", skipped));
  }

  imagesOf(name) {
    return this.page.classes.find((each) => each.name === name)?.images ?? 0;
  }

  // What was said of a lesson that has been undone, or of classes that are gone, is not true any more.
  look() {
    const { told } = this;
    if (told && (!told.names.every((name) => this.imagesOf(name)) || this.imagesOf(told.names[0]) < told.images)) {
      this.told = null;
      byId("lesson").replaceChildren(...this.hint);
    }
    this.update();
  }

  addTo(name) {
    byId("teach-name").value = name;
    this.update();
    byId("teach").scrollIntoView({ behavior: "smooth", block: "nearest" });
    byId("teach-name").focus({ preventScroll: true });
  }

  update() {
    if (!this.frames || !this.record) return; // still being built
    const name = tidy(byId("teach-name").value);
    const { recording } = this.record;
    const drawn = this.source === "draw" && !this.pad.empty;
    const known = this.page.classes.some((each) => each.name === name);
    byId("keep").textContent = this.source !== "camera" ? "Keep drawing" : recording ? "Recording…" : "Take picture";
    byId("keep").title = this.source === "camera" ? "Hold it down for several pictures" : "";
    byId("encoder-note").hidden = this.source === "draw" || this.page.state?.encoder !== "glyphs";
    byId("hold-hint").hidden = this.source !== "camera";
    byId("teach-camera").classList.toggle("recording", recording);
    byId("keep").hidden = this.source === "pictures";
    byId("teach-clear").hidden = this.source !== "draw";
    byId("keep").disabled = !(drawn || (this.source === "camera" && this.camera.ready));
    byId("teach-clear").disabled = !drawn;
    byId("learn").disabled = this.busy || !name || !(this.frames.images.length || drawn);
    byId("learn").textContent = this.busy ? "Learning…" : known ? "Add to this class" : "Learn";
  }
}

function leftOut(title, skipped) {
  const named = skipped.slice(0, NAMED).map((each) => element("li", {}, `${each.file}: ${each.reason}`));
  const more = skipped.length - named.length;
  if (more) named.push(element("li", {}, `and ${more} more`));
  return [element("p", { class: "fault" }, title), element("ul", { class: "left-out" }, ...named)];
}

const seconds = (value) => `${value < 0.95 ? value.toFixed(2) : value.toFixed(1)}\u202fs`;
