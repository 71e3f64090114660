// The page: holds what the server said last, and asks again whenever the project has changed, here or elsewhere.
import { api } from "./api.js";
import { Classes } from "./classes.js";
import { offerCheckUp, showDoctor, showHistory } from "./doctor.js";
import { byId, plural } from "./dom.js";
import { exportModel } from "./exporting.js";
import { showMap } from "./map.js";
import { failure, notice, start as startNotices } from "./notice.js";
import { showSharing, startSharing } from "./sharing.js";
import { startSuggestions } from "./suggestions.js";
import { Teach } from "./teach.js";
import { Try } from "./try.js";

const POLL = 1500; // ms between looks at the generation, while the page is visible
const FEW = 200; // classes that are checked without being asked to

class Page {
  constructor() {
    this.state = null;
    this.classes = [];
    this.lost = false;
    this.round = 0;
    this.resting = false; // while many lessons are on their way, nothing else is asked
    this.classOf = new Map(); // image -> its class
    startNotices();
    startSuggestions();
    this.list = new Classes(this);
    this.teach = new Teach(this);
    this.try = new Try(this);
    byId("undo").addEventListener("click", () => this.undo());
    byId("export").addEventListener("click", exportModel);
    startSharing(this);
    document.addEventListener("visibilitychange", () => document.hidden || this.look());
    // A file that misses its target must not replace the page.
    for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
  }

  async look() {
    if (document.hidden || this.resting) return;
    try {
      const state = await api.state();
      if (this.lost) notice("The server is back.");
      this.lost = false;
      if (`${state.projects}` !== `${this.state?.projects}`) showSharing(state);
      if (state.generation !== this.state?.generation) await this.refresh(state);
    } catch (error) {
      if (error.status === 404 && location.search) return location.replace("/"); // a project of an earlier start
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
    this.classOf = new Map(points.map((point) => [point.image_id, point.class_name]));
    this.head();
    await this.list.show();
    showMap(points, state.keeps_images, this.list.newest);
    this.teach.look();
    this.try.again();
    this.checkUp(round);
  }

  // Takes longer than the rest, so nothing waits for it.
  async checkUp(round, wanted = this.classes.length <= FEW) {
    const offer = () => offerCheckUp(this.classes.length, () => this.checkUp(round, true));
    try {
      if (!wanted) offer();
      const [diagnosis, changes] = await Promise.all([wanted ? api.doctor() : null, api.history()]);
      if (round !== this.round) return;
      if (diagnosis) showDoctor(diagnosis, this);
      showHistory(changes);
    } catch (error) {
      if (round !== this.round) return;
      failure(error);
      if (this.classes.length > FEW) offer();
    }
  }

  head() {
    const { state } = this;
    const known = `${plural(state.classes, "class", "classes")}, ${plural(state.images, "image")}`;
    byId("project").textContent = `${state.demo ? "Demo" : state.project}: ${known}, seen by ${state.encoder}`;
    byId("project").title = state.note;
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
}

const page = new Page();
await page.look();
const welcome = sessionStorage.getItem("welcome"); // of a project that was just made
if (welcome) notice(welcome);
sessionStorage.removeItem("welcome");
setInterval(() => page.look(), POLL);
