// A button that takes one picture when it is pressed, and goes on taking them while it is held: by finger, mouse or key.

const HOLD = 400; // ms after which a press is a hold
const PACE = 200; // ms between two pictures

export class Record {
  // `take`: takes a picture; `ready`: may one be taken now; `changed`: recording began or ended.
  constructor(button, { take, ready, changed }) {
    Object.assign(this, { take, ready, changed });
    this.held = null; // a loop runs while this is its own
    this.taken = 0; // while the button was held
    button.addEventListener("pointerdown", (event) => {
      if (event.button > 0 || !ready()) return;
      button.setPointerCapture(event.pointerId);
      this.begin();
    });
    for (const name of ["pointerup", "pointercancel", "blur"]) button.addEventListener(name, () => this.end());
    button.addEventListener("contextmenu", (event) => ready() && event.preventDefault()); // of a long touch
    button.addEventListener("keydown", (event) => {
      if (!["Enter", " "].includes(event.key) || !ready()) return;
      if (event.repeat) event.preventDefault(); // Enter would press the button again and again
      else this.begin();
    });
    button.addEventListener("keyup", (event) => ["Enter", " "].includes(event.key) && this.end());
    document.addEventListener("visibilitychange", () => document.hidden && this.end());
  }

  get recording() {
    return this.held !== null && this.taken > 0;
  }

  // Whether the click that ends a hold is no more than that.
  get spent() {
    return this.taken > 0;
  }

  begin() {
    this.taken = 0;
    const held = (this.held = {});
    setTimeout(() => this.loop(held), HOLD);
  }

  async loop(held) {
    while (held === this.held && this.ready()) {
      this.taken += 1;
      this.changed();
      await this.take();
      await new Promise((resolve) => setTimeout(resolve, PACE));
    }
    if (held === this.held) this.end();
  }

  end() {
    if (!this.held) return;
    this.held = null;
    setTimeout(() => this.held ?? (this.taken = 0), 100); // after the click that may follow
    this.changed();
  }
}
