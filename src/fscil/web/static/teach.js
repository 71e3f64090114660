// Teach: examples from the pen, from files or from the camera; a name; learned.
import { api } from "./api.js";
import { Camera } from "./camera.js";
import { byId, element, percent, plural } from "./dom.js";
import { takeDrops } from "./drops.js";
import { Frames } from "./frames.js";
import { failure, notice } from "./notice.js";
import { Pad } from "./pad.js";

const SOURCES = ["draw", "pictures", "camera"];

export class Teach {
  constructor(page) {
    this.page = page;
    this.busy = false;
    this.pad = new Pad(byId("teach-pad"), () => this.update());
    this.camera = new Camera(byId("teach-video"));
    this.frames = new Frames(() => page.state?.limits.images ?? 64, () => this.update());
    byId("keep").addEventListener("click", () => this.keep().catch(failure));
    byId("teach-clear").addEventListener("click", () => this.pad.clear());
    byId("teach-pick").addEventListener("click", () => byId("teach-files").click());
    byId("teach-files").addEventListener("change", (event) => {
      this.take([...event.target.files]);
      event.target.value = "";
    });
    takeDrops(byId("teach"), (files) => this.take(files));
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

  take(files) {
    const left = this.frames.add(...files);
    if (left) notice(`${plural(left, "picture")} too many for one lesson; teach the rest afterwards.`);
    byId("teach-name").focus({ preventScroll: true });
  }

  // Puts what is on the sheet, or before the camera, into the next frame.
  async keep() {
    if (this.source === "camera") this.frames.add(await this.camera.picture());
    else if (!this.pad.empty) {
      const picture = this.pad.picture();
      this.pad.clear();
      this.frames.add(await picture);
    }
  }

  async learn() {
    const name = byId("teach-name").value.trim();
    if (this.busy || !name) return;
    if (this.source === "draw") await this.keep(); // the last drawing need not be kept by hand
    if (!this.frames.images.length) return;
    this.busy = true;
    this.update();
    try {
      const lesson = await api.learn(name, this.frames.images);
      this.frames.empty();
      byId("teach-name").value = "";
      await this.page.refresh();
      this.tell(lesson);
    } finally {
      this.busy = false;
      this.update();
    }
  }

  tell(lesson) {
    const skipped = lesson.skipped.length ? ` ${plural(lesson.skipped.length, "image")} skipped: ${lesson.skipped[0].reason}` : "";
    const parts = [
      element("p", {}, "Learned ", element("strong", {}, lesson.name), ` from ${plural(lesson.added, "image")} in ${seconds(lesson.seconds)}.${skipped}`),
    ];
    if (lesson.rivals.length) {
      const rivals = lesson.rivals.slice(0, 3).map((rival) => element("li", {}, element("strong", {}, rival.name), ` ${percent(rival.similarity)}`));
      parts.push(element("p", { class: "quiet" }, "Now competes with"), element("ul", { class: "rivals", "aria-label": "Classes it now competes with" }, ...rivals));
    }
    byId("lesson").replaceChildren(...parts);
  }

  addTo(name) {
    byId("teach-name").value = name;
    this.update();
    byId("teach").scrollIntoView({ behavior: "smooth", block: "nearest" });
    byId("teach-name").focus({ preventScroll: true });
  }

  update() {
    if (!this.frames) return; // still being built
    const name = byId("teach-name").value.trim();
    const drawn = this.source === "draw" && !this.pad.empty;
    const known = this.page.classes.some((each) => each.name === name);
    byId("keep").textContent = this.source === "camera" ? "Take picture" : "Keep drawing";
    byId("keep").hidden = this.source === "pictures";
    byId("teach-clear").hidden = this.source !== "draw";
    byId("keep").disabled = !(drawn || (this.source === "camera" && this.camera.ready));
    byId("teach-clear").disabled = !drawn;
    byId("learn").disabled = this.busy || !name || !(this.frames.images.length || drawn);
    byId("learn").textContent = this.busy ? "Learning…" : known ? "Add to this class" : "Learn";
  }
}

const seconds = (value) => `${value < 0.95 ? value.toFixed(2) : value.toFixed(1)}\u202fs`;
