// What the camera sees, judged again and again. One question at a time: the next picture is taken when the answer to the
// last is back, so that a slow server is asked less often instead of having questions pile up.
import { Camera } from "./camera.js";

const PACE = 125; // ms from one question to the next, at least
const AFTER_FAILURE = 2000;

const pause = (time) => new Promise((resolve) => setTimeout(resolve, time));

export class Live {
  // `judge`: asks about a picture; `changed`: it began or ended; `failed`: hears what went wrong.
  constructor(video, judge, changed, failed) {
    Object.assign(this, { judge, changed, failed });
    this.round = null; // a loop runs while this is its own
    this.camera = new Camera(video, () => this.follow(), failed);
  }

  get on() {
    return this.camera.wanted;
  }

  start() {
    return this.camera.start();
  }

  stop() {
    if (this.on) this.camera.stop();
  }

  follow() {
    if (!this.camera.ready) this.round = null; // stopped, or nobody looks
    else if (!this.round) this.loop((this.round = {}));
    this.changed();
  }

  async loop(round) {
    while (round === this.round) {
      const started = performance.now();
      try {
        const picture = await this.camera.picture();
        if (picture && round === this.round) await this.judge(picture);
      } catch (error) {
        if (round === this.round) this.failed(error);
        await pause(AFTER_FAILURE);
      }
      await pause(Math.max(0, PACE - (performance.now() - started)));
    }
  }
}
