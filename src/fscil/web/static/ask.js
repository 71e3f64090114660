// Questions that must be answered before anything goes on, in a dialog that keeps the keyboard; Escape answers with null.
import { element } from "./dom.js";
import { near } from "./names.js";

export function ask(title, parts, choices) {
  const dialog = element("dialog", { class: "ask", "aria-labelledby": "ask-title" });
  return new Promise((resolve) => {
    let answer = null;
    const form = element("form", { method: "dialog" }, element("h2", { id: "ask-title" }, title), ...parts);
    const buttons = choices.map(([label, value], index) =>
      element(
        "button",
        { type: index === 0 ? "submit" : "button", class: index === 0 ? "primary" : "", onclick: (event) => {
          if (index === 0 && !form.checkValidity()) return;
          event.preventDefault();
          answer = typeof value === "function" ? value(form) : value;
          dialog.close();
        } },
        label,
      ),
    );
    form.append(element("div", { class: "row choices" }, ...buttons));
    dialog.append(form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// The name that is meant: the one given, a known one that it nearly is, or null for neither.
export async function meant(name, known) {
  const other = near(name, known);
  if (!other) return name;
  return ask(`There is a class “${other}” already`, [element("p", {}, `“${name}” is nearly the same name.`)], [
    [`It is ${other}`, other],
    [`${name} is another class`, name],
    ["Cancel", null],
  ]);
}
