// When the answer is 'unknown': by how often a picture of a known class may be called so, or by a likeness set by hand.
import { api } from "./api.js";
import { byId, element, percent } from "./dom.js";
import { failure } from "./notice.js";

const RATES = [0.01, 0.02, 0.05, 0.1, 0.2];
const BY_HAND = ""; // no rate: the likeness was set

const rate = (share) => `${Number((100 * share).toPrecision(3))}\u202f%`; // the command line takes any

export class Unknown {
  constructor(page) {
    this.page = page;
    this.wanted = null; // what is to be set next, while a setting is on its way
    this.setting = false;
    this.rates = byId("false-alarms");
    this.slider = byId("threshold");
    this.rates.addEventListener("change", () => this.set(null, Number(this.rates.value)));
    this.slider.addEventListener("input", () => (byId("threshold-value").textContent = percent(this.slider.value)));
    this.slider.addEventListener("change", () => this.set(Number(this.slider.value), null));
    byId("threshold-auto").addEventListener("click", () => this.set(null, null));
  }

  // One after another, and of several only the last: arrow keys change the choice faster than a server answers.
  async set(likeness, share) {
    this.wanted = [likeness, share];
    if (this.setting) return;
    this.setting = true;
    try {
      while (this.wanted) {
        const [next, then] = this.wanted;
        this.wanted = null;
        await api.threshold(next, then);
      }
    } catch (error) {
      this.wanted = null;
      failure(error);
    }
    this.setting = false;
    this.page.refresh().catch(failure); // shows what holds now, also after a failure
  }

  show() {
    if (this.setting) return; // a choice is being made
    const { threshold, false_alarms: share } = this.page.state;
    const known = share === null || RATES.includes(share) ? RATES : [...RATES, share].sort((one, other) => one - other);
    this.rates.replaceChildren(
      ...(share === null ? [element("option", { value: BY_HAND, disabled: true }, "as set below")] : []),
      ...known.map((each) => element("option", { value: each }, rate(each))),
    );
    this.rates.value = share ?? BY_HAND;
    this.slider.value = threshold;
    byId("threshold-value").textContent = percent(threshold);
    byId("unknown-now").textContent = share === null ? `Below a likeness of ${percent(threshold)}.` : `For about ${rate(share)} of what it knows.`;
  }
}
