// The page: holds what the server said last, and asks again whenever the project has changed, here or elsewhere.
import { api } from "./api.js";
import { Classes } from "./classes.js";
import { showDoctor, showHistory } from "./doctor.js";
import { byId, plural } from "./dom.js";
import { showMap } from "./map.js";
import { failure, notice, start as startNotices } from "./notice.js";
import { Teach } from "./teach.js";
import { Try } from "./try.js";

const POLL = 1500; // ms between looks at the generation, while the page is visible

class Page {
  constructor() {
    this.state = null;
    this.classes = [];
    this.lost = false;
    this.round = 0;
    startNotices();
    this.list = new Classes(this);
    this.teach = new Teach(this);
    this.try = new Try(this);
    byId("undo").addEventListener("click", () => this.undo());
    byId("export").addEventListener("click", () => this.export());
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    // A file that misses its target must not replace the page.
    for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
  }

  async look() {
    if (document.hidden) return;
    try {
      const state = await api.state();
      if (this.lost) notice("The server is back.");
      this.lost = false;
      if (state.generation !== this.state?.generation) await this.refresh(state);
    } catch (error) {
      if (!this.lost) failure(error);
      this.lost = true;
    }
  }

  async refresh(state) {
    const round = ++this.round;
    state ??= await api.state();
    const [classes, points] = await Promise.all([api.classes(), api.map()]);
    if (round !== this.round) return; // a later refresh is on its way and knows more
    Object.assign(this, { state, classes });
    this.head();
    await this.list.show();
    showMap(points, state.keeps_images, this.list.newest);
    this.teach.update();
    this.try.again();
    this.checkUp(round);
  }

  // Takes longer than the rest, so nothing waits for it.
  async checkUp(round) {
    try {
      const [diagnosis, changes] = await Promise.all([api.doctor(), api.history()]);
      if (round !== this.round) return;
      showDoctor(diagnosis, this);
      showHistory(changes);
    } catch (error) {
      if (round === this.round) failure(error);
    }
  }

  head() {
    const { state } = this;
    const known = `${plural(state.classes, "class", "classes")}, ${plural(state.images, "image")}`;
    byId("project").textContent = `${state.demo ? "Demo" : state.project}: ${known}`;
    byId("demo-note").hidden = !state.demo;
    document.title = `${state.demo ? "Demo" : state.project} · Teach`;
    byId("undo").disabled = !state.undo;
    byId("undo").title = state.undo ? `Undo: ${state.undo}` : "";
    byId("export").disabled = !state.classes;
  }

  async undo() {
    try {
      const done = await api.undo();
      await this.refresh();
      notice(done.message);
    } catch (error) {
      failure(error);
    }
  }

  async export() {
    const button = byId("export");
    button.disabled = true;
    button.textContent = "Exporting…";
    try {
      const { blob, name } = await api.export();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
      notice(`Exported ${name}, checked against your own images.`);
    } catch (error) {
      failure(error);
    } finally {
      button.textContent = "Export";
      button.disabled = !this.state?.classes;
    }
  }
}

const page = new Page();
await page.look();
setInterval(() => page.look(), POLL);
