// Elements are made from text, never from markup: a class may be called "<script>" and is shown as just that.
import { imageAddress } from "./api.js";

export const byId = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value != null) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export const percent = (share) => `${Math.round(share * 100)}\u202f%`;

// Never "100 % sure" of anything that is not.
export const sure = (share) => (share > 0.99 && share < 1 ? `>\u202f99\u202f%` : percent(share));

export const plural = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

export function thumbnail(id, label, keepsImages = true) {
  if (!keepsImages) return element("span", { class: "thumb blank", role: "img", "aria-label": label });
  return element("img", { class: "thumb", src: imageAddress(id), alt: label, loading: "lazy", decoding: "async" });
}
