// A long list, drawn a portion at a time.
import { element } from "./dom.js";

export function fillList(list, items, draw, portion) {
  list.replaceChildren(...items.slice(0, portion).map(draw));
  if (items.length <= portion) return list;
  let shown = portion;
  const label = () => `Show ${Math.min(portion, items.length - shown)} of ${items.length - shown} more`;
  const button = element("button", { type: "button", class: "plain more", onclick: () => {
    const next = items.slice(shown, shown + portion).map(draw);
    shown += next.length;
    row.before(...next);
    next[0].tabIndex = -1;
    next[0].focus({ preventScroll: true }); // reading goes on there
    if (shown < items.length) button.textContent = label();
    else row.remove();
  } }, label());
  const row = element("li", { class: "rest" }, button);
  list.append(row);
  return list;
}
