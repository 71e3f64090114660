// One line at the foot of the page that says what happened, with a way back where there is one.
import { byId } from "./dom.js";

let timer = 0;
let takeBack = null;

export function notice(text, { undo = null, failed = false } = {}) {
  const box = byId("notice");
  takeBack = undo;
  byId("notice-text").textContent = text;
  byId("notice-undo").hidden = !undo;
  box.classList.toggle("failed", failed);
  box.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (box.hidden = true), failed ? 9000 : 6000);
}

export function failure(error) {
  notice(error.message, { failed: true });
}

export function start() {
  byId("notice-undo").addEventListener("click", () => {
    byId("notice").hidden = true;
    takeBack?.();
  });
}
