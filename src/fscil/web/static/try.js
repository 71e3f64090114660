// Try it: the answer follows the pen. At most one question is on its way; when it is back, the latest drawing is asked.
import { api } from "./api.js";
import { meant } from "./ask.js";
import { Bars } from "./bars.js";
import { byId, element, percent, sure, thumbnail } from "./dom.js";
import { takeDrops } from "./drops.js";
import { Live } from "./live.js";
import { tidy } from "./names.js";
import { failure, notice } from "./notice.js";
import { Pad } from "./pad.js";
import { Unknown } from "./unknown.js";

const SHOWN = 4; // examples beside an answer
const PAUSE = 350; // ms without a change before the answer is explained and spoken
const STEADY = 800; // ms that an answer to the camera must stand for that

export class Try {
  constructor(page) {
    this.page = page;
    this.asking = this.waiting = false;
    this.file = null; // a picture in place of the drawing
    this.round = 0; // grows with every change: answers to older drawings are dropped
    this.timer = 0;
    this.frame = null; // of the camera: the picture that was judged last
    this.label = ""; // what it was taken for
    this.because = this.shown = null; // the answer that is explained below, and the classes that are named there
    this.live = new Live(byId("try-video"), (picture) => this.see(picture), () => this.watched(), failure);
    this.bars = new Bars(byId("bars"));
    this.pad = new Pad(byId("try-pad"), () => this.drawn());
    byId("try-clear").addEventListener("click", () => this.clear());
    byId("try-pick").addEventListener("click", () => byId("try-file").click());
    byId("try-file").addEventListener("change", (event) => {
      if (event.target.files[0]) this.give(event.target.files[0]);
      event.target.value = "";
    });
    byId("try-camera").addEventListener("click", () => this.watch().catch(failure));
    takeDrops(byId("try"), (files) => this.give(files[0]));
    byId("correct").addEventListener("submit", (event) => {
      event.preventDefault();
      this.correct().catch(failure);
    });
    this.unknown = new Unknown(page);
  }

  get image() {
    const given = this.live.on ? this.frame : this.file;
    return given ? Promise.resolve(given) : this.pad.picture();
  }

  get blank() {
    return this.live.on ? !this.frame : !this.file && this.pad.empty;
  }

  drawn() {
    if (this.file && !this.pad.empty) this.showPicture(null); // the pen goes over a picture
    this.changed();
  }

  give(file) {
    this.live.stop();
    this.showPicture(file);
    this.pad.clear();
  }

  clear() {
    this.live.stop();
    this.showPicture(null);
    this.pad.clear();
  }

  // The camera, on and off.
  async watch() {
    const on = !this.live.on;
    this.clear();
    if (on) await this.live.start();
  }

  watched() {
    const { on } = this.live;
    byId("try-camera").setAttribute("aria-pressed", String(on));
    byId("try-video").hidden = !on;
    byId("try-pad").hidden = on;
    byId("try-sheet").classList.toggle("watched", on);
    byId("try-clear").disabled = !on && this.blank;
    if (on) return;
    this.frame = null;
    this.label = "";
    if (this.blank) this.showNothing();
  }

  // A picture of the camera. The answer is explained once it has stood for a while, and again from time to time.
  async see(frame) {
    if (!this.page.classes.length) {
      this.show({ label: "unknown", confidence: 0, top: [], error: "" });
      return;
    }
    const verdict = await api.predict(frame, Bars.MOST);
    if (!this.live.on) return;
    this.frame = frame;
    if (verdict.label !== this.label) {
      clearTimeout(this.timer);
      this.timer = 0;
      this.label = verdict.label;
      this.round += 1;
      byId("try").dataset.round = this.round;
    }
    this.show(verdict);
    const round = this.round;
    this.timer ||= setTimeout(async () => {
      await this.explain(verdict, round);
      if (round === this.round) this.timer = 0;
    }, STEADY);
  }

  showPicture(file) {
    const picture = byId("try-picture");
    picture.onerror = () => file && (picture.hidden = true); // the server may read what the browser cannot: HEIC
    byId("try-unshown").textContent = file?.name ?? "";
    if (picture.src) URL.revokeObjectURL(picture.src);
    this.file = file;
    picture.hidden = !file;
    if (file) picture.src = URL.createObjectURL(file);
    else picture.removeAttribute("src");
    byId("try-sheet").classList.toggle("pictured", Boolean(file));
  }

  changed() {
    if (this.live.on) return;
    this.round += 1;
    byId("try").dataset.round = this.round;
    clearTimeout(this.timer);
    byId("try-clear").disabled = this.blank;
    if (this.blank) this.showNothing();
    else this.ask();
  }

  // The classes changed: the same drawing may now have another answer.
  again() {
    const known = new Set(this.page.classes.map((each) => each.name));
    if (!this.shown?.every((name) => known.has(name))) this.hideNeighbours(); // of classes that are gone
    if (this.live.on) this.label = "";
    else if (this.blank) this.showNothing();
    else this.changed();
    this.unknown.show();
  }

  async ask() {
    if (this.asking) {
      this.waiting = true;
      return;
    }
    this.asking = true;
    this.waiting = false;
    const round = this.round;
    try {
      if (!this.page.classes.length) {
        this.show({ label: "unknown", confidence: 0, top: [], error: "" });
        return;
      }
      const verdict = await api.predict(await this.image, Bars.MOST);
      if (this.blank) return;
      this.show(verdict);
      if (round === this.round) this.timer = setTimeout(() => this.explain(verdict, round), PAUSE);
    } catch (error) {
      failure(error);
    } finally {
      this.asking = false;
      if (this.waiting && !this.blank) this.ask();
    }
  }

  show(verdict) {
    const unknown = verdict.label === "unknown";
    const closest = verdict.top.find((guess) => guess.label !== "unknown");
    byId("verdict").classList.toggle("unknown", unknown);
    byId("verdict-name").textContent = verdict.error ? "—" : verdict.label;
    byId("verdict-note").textContent = verdict.error
      ? verdict.error
      : !unknown
        ? `${sure(verdict.confidence)} sure`
        : closest
          ? `Nothing it knows fits. The closest is ${closest.label}.`
          : "It knows nothing yet: teach it something first.";
    this.bars.show(verdict, this.page.classes);
    if (verdict.label !== this.because) this.hideNeighbours(); // they spoke for another answer
  }

  showNothing() {
    byId("verdict").classList.remove("unknown");
    byId("verdict-name").textContent = "\u00a0";
    byId("verdict-note").textContent = "Its answer appears here.";
    byId("spoken").textContent = "";
    this.hideNeighbours();
    byId("correct").hidden = true;
    this.bars.show({ label: "", top: [] }, this.page.classes);
  }

  async explain(verdict, round) {
    const first = round !== this.spoken; // of a film each answer is spoken once
    this.spoken = round;
    if (first) byId("spoken").textContent = `${verdict.label}. ${byId("verdict-note").textContent}`;
    if (verdict.error) return;
    try {
      const said = await api.explain(await this.image, SHOWN);
      if (round !== this.round || said.label !== verdict.label) return; // of an older drawing, or of an older project
      this.showExplanation(said);
      byId("because").dataset.round = round;
    } catch (error) {
      failure(error);
    }
  }

  // Examples of what it is taken for speak for that; the most alike of other classes stand apart, and say so.
  showExplanation({ label, examples, others }) {
    const known = examples.length > 0;
    byId("because-title").textContent = known ? `It looks like these of ${label}` : "Nothing is close enough. Closest are";
    const shown = known ? [...examples.slice(0, SHOWN - 1), ...others.slice(0, 1)] : others;
    byId("neighbours").replaceChildren(
      ...shown.map((each) =>
        element(
          "li",
          { class: known && each.class_name !== label ? "other" : "" },
          thumbnail(each.image_id, `An example of ${each.class_name}`, this.page.state.keeps_images),
          element("span", { class: "neighbour-name" }, each.class_name),
          element("span", { class: "quiet" }, percent(each.similarity)),
        ),
      ),
    );
    this.because = label;
    this.shown = shown.map((each) => each.class_name);
    this.showReasons(shown.length > 0);
  }

  // The field for corrections stays: somebody may be typing there.
  hideNeighbours() {
    this.because = this.shown = null;
    byId("because").hidden = true;
    byId("why").hidden = false;
  }

  showReasons(shown) {
    byId("why").hidden = shown;
    byId("because").hidden = !shown;
    byId("correct").hidden = false;
  }

  async correct() {
    const given = tidy(byId("correct-name").value);
    if (!given || this.blank) return;
    const image = await this.image; // what was judged, also if the camera sees something else meanwhile
    const name = await meant(given, this.page.classes.map((each) => each.name));
    if (name === null) return;
    const lesson = await api.learn(name, [image]);
    byId("correct-name").value = "";
    await this.page.refresh();
    notice(`Added to ${lesson.name}.`, { undo: () => this.page.undo() });
  }
}
