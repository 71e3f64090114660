// The little frames that fill up with examples. What the server could not use stays, marked with the reason, until the
// next lesson begins; it is not sent again.
import { byId, element } from "./dom.js";

export const WANTED = 5;

export class Frames {
  constructor(limit, changed) {
    this.limit = limit;
    this.changed = changed;
    this.kept = []; // { image: File, url, fault }
    this.taken = 0;
    this.show();
  }

  get images() {
    return this.kept.filter((each) => !each.fault).map((each) => each.image);
  }

  add(...images) {
    this.drop((each) => each.fault);
    const room = this.limit() - this.kept.length;
    for (const image of images.slice(0, room)) this.kept.push({ image: this.named(image), url: URL.createObjectURL(image), fault: "" });
    this.show();
    return Math.max(0, images.length - room); // how many found no place
  }

  // Every picture of a lesson has a name of its own, by which the server speaks of it.
  named(image) {
    const names = new Set(this.kept.map((each) => each.image.name));
    const [stem, suffix] = image.name ? /^(.*?)(\.[^.]*)?$/s.exec(image.name).slice(1) : [null, image.type === "image/jpeg" ? ".jpg" : ".png"];
    if (stem !== null && !names.has(image.name)) return image;
    let name;
    do name = `${stem ?? "picture"} ${(this.taken += 1)}${suffix ?? ""}`;
    while (names.has(name));
    return new File([image], name, { type: image.type });
  }

  // After a lesson: the pictures that were used go, the others are marked.
  settle(skipped) {
    const faults = new Map(skipped.map((each) => [each.file, each.reason]));
    for (const each of this.kept) each.fault ||= faults.get(each.image.name) ?? "";
    this.drop((each) => !each.fault);
    this.taken = 0;
    this.show();
  }

  drop(which) {
    for (const each of this.kept.filter(which)) URL.revokeObjectURL(each.url);
    this.kept = this.kept.filter((each) => !which(each));
  }

  remove(one) {
    this.drop((each) => each === one);
    this.show();
  }

  show() {
    const filled = this.kept.map((one, index) => this.frame(one, `Example ${index + 1}`));
    const blank = Array.from({ length: Math.max(0, WANTED - filled.length) }, (_, index) =>
      element("li", { class: index === 0 ? "frame next" : "frame", "aria-hidden": "true" }),
    );
    byId("frames").replaceChildren(...filled, ...blank);
    const count = this.images.length;
    byId("frames-count").textContent = count <= WANTED ? `${count} of ${WANTED}` : String(count);
    this.changed?.();
  }

  frame(one, label) {
    // What the browser cannot show, the server may read all the same: a HEIC photograph.
    const unshown = () => picture.replaceWith(element("span", { class: "unshown", role: "img", "aria-label": label }, suffix(one.image.name)));
    const said = one.fault ? `${label}, not used: ${one.fault}` : label;
    const picture = element("img", { src: one.url, alt: said, title: one.fault ? `${one.image.name}: ${one.fault}` : null, onerror: unshown });
    const cross = element("button", {
      type: "button",
      class: "cross",
      "aria-label": `Remove ${label.toLowerCase()}`,
      onclick: () => {
        this.remove(one);
        byId("teach-name").focus(); // the button is gone: keep the keyboard in the form
      },
    });
    return element("li", { class: one.fault ? "frame filled faulty" : "frame filled", title: one.fault || null }, picture, cross);
  }
}

const suffix = (name) => /\.([^.]{1,5})$/.exec(name)?.[1].toLowerCase() ?? "?";
