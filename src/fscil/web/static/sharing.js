// Another project, and an invitation for another machine.
import { api } from "./api.js";
import { ask } from "./ask.js";
import { byId, element, shape } from "./dom.js";
import { failure } from "./notice.js";

const SEES = {
  photos: "Photographs",
  "photos-lite1": "Photographs, finer",
  "photos-lite2": "Photographs, finest",
  glyphs: "Signs, symbols and drawings",
  cifar100: "Small photographs, 32 pixels wide",
};

export function startSharing(page) {
  byId("new-project").addEventListener("click", () => makeProject(page).catch(failure));
  byId("invite").addEventListener("click", () => invite().catch(failure));
  byId("projects").addEventListener("change", (event) => show(event.target.value));
}

export function showSharing(state) {
  byId("invite").hidden = !state.shared;
  byId("new-project").hidden = !state.encoders.length;
  const select = byId("projects");
  select.hidden = state.projects.length < 2;
  select.replaceChildren(
    ...state.projects.map((name) => element("option", { value: name, selected: name === state.project }, name)),
  );
  byId("private").textContent = state.shared ? "Nothing leaves this network." : "Nothing leaves this machine.";
}

const show = (name) => location.assign(`/?project=${encodeURIComponent(name)}`);

async function makeProject(page) {
  const name = element("input", { id: "project-name", maxlength: "60", required: true, autocomplete: "off" });
  const options = page.state.encoders.map((each, index) =>
    element(
      "label",
      { class: "option" },
      element("input", { type: "radio", name: "encoder", value: each, checked: index === 0 }),
      element("span", {}, SEES[each] ?? each, element("span", { class: "quiet" }, ` ${each}`)),
    ),
  );
  const parts = [
    element("label", { class: "label", for: "project-name" }, "Name"),
    name,
    element("fieldset", {}, element("legend", { class: "label" }, "What it shall tell apart"), ...options),
  ];
  const answer = await ask("A new project", parts, [
    ["Make it", (form) => ({ name: name.value.trim(), encoder: new FormData(form).get("encoder") })],
    ["Cancel", null],
  ]);
  if (!answer?.name) return;
  const made = await api.makeProject(answer.name, answer.encoder);
  sessionStorage.setItem("welcome", `${made.name} lies in ${made.folder}; later: fscil serve with this folder.`);
  show(made.name);
}

async function invite() {
  const { address, minutes, code } = await api.invite();
  const parts = [
    element("p", {}, `Scan this, or open the address below, on a machine of the same network. It lets its guests in for ${minutes} minutes; they can do all that you can.`),
    element("div", { class: "qr" }, drawCode(code)),
    element("p", { class: "address" }, address),
  ];
  if (navigator.clipboard) {
    parts.push(element("button", { type: "button", class: "plain", onclick: () => navigator.clipboard.writeText(address) }, "Copy the address"));
  }
  await ask("Invite to this page", parts, [["Close", null]]);
}

function drawCode(rows) {
  const dark = rows.flatMap((row, y) => [...row].flatMap((cell, x) => (cell === "1" ? [`M${x} ${y}h1v1h-1z`] : [])));
  const side = rows.length;
  return shape(
    "svg",
    { viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": "The address as a QR code", "shape-rendering": "crispEdges" },
    shape("rect", { width: side, height: side, fill: "#fff" }),
    shape("path", { d: dark.join(""), fill: "#000" }),
  );
}
