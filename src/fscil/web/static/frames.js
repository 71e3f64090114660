// The little frames that fill up with examples.
import { byId, element } from "./dom.js";

export const WANTED = 5;

export class Frames {
  constructor(limit, changed) {
    this.limit = limit;
    this.changed = changed;
    this.kept = []; // { image: Blob, url }
    this.show();
  }

  get images() {
    return this.kept.map((each) => each.image);
  }

  add(...images) {
    const room = this.limit() - this.kept.length;
    for (const image of images.slice(0, room)) this.kept.push({ image, url: URL.createObjectURL(image) });
    this.show();
    return Math.max(0, images.length - room); // how many found no place
  }

  remove(one) {
    URL.revokeObjectURL(one.url);
    this.kept = this.kept.filter((each) => each !== one);
    this.show();
  }

  empty() {
    for (const each of this.kept) URL.revokeObjectURL(each.url);
    this.kept = [];
    this.show();
  }

  show() {
    const filled = this.kept.map((one, index) =>
      element(
        "li",
        { class: "frame filled" },
        element("img", { src: one.url, alt: `Example ${index + 1}` }),
        element("button", {
          type: "button",
          class: "cross",
          "aria-label": `Remove example ${index + 1}`,
          onclick: () => {
            this.remove(one);
            byId("teach-name").focus(); // the button is gone: keep the keyboard in the form
          },
        }),
      ),
    );
    const blank = Array.from({ length: Math.max(0, WANTED - filled.length) }, (_, index) =>
      element("li", { class: index === 0 ? "frame next" : "frame", "aria-hidden": "true" }),
    );
    byId("frames").replaceChildren(...filled, ...blank);
    const count = filled.length;
    byId("frames-count").textContent = count <= WANTED ? `${count} of ${WANTED}` : String(count);
    this.changed?.();
  }
}
