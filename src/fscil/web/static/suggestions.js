// The names suggested in every field that asks for a class: of many, those that contain what is typed.
import { byId, element } from "./dom.js";

const MOST = 100; // a browser looks through all of them at every letter
let known = [];

export function startSuggestions() {
  for (const event of ["focusin", "input"]) {
    document.addEventListener(event, ({ target }) => target.getAttribute("list") === "class-names" && suggest(target.value));
  }
}

export function suggestNames(names) {
  known = names;
  suggest("");
}

function suggest(typed) {
  const part = typed.trim().toLowerCase();
  const fitting = known.length > MOST ? known.filter((name) => name.toLowerCase().includes(part)).slice(0, MOST) : known;
  const options = byId("class-names");
  if (fitting.length === options.children.length && fitting.every((name, index) => options.children[index].value === name)) return;
  options.replaceChildren(...fitting.map((name) => element("option", { value: name })));
}
