// The doctor's findings, each with what to do, and the history of changes.
import { api } from "./api.js";
import { ask, meant } from "./ask.js";
import { byId, element, plural, shape, thumbnail } from "./dom.js";
import { fillList } from "./more.js";
import { tidy } from "./names.js";
import { failure, notice } from "./notice.js";

const WORDS = { problem: "Problem", warning: "Look at this", info: "Good to know" };
const SHOWN = 6; // images beside a finding
const FINDINGS = 20; // shown at first
const CHANGES = 100;

export function showDoctor(diagnosis, page) {
  const parts = [];
  if (diagnosis.expected_accuracy != null) parts.push(expectation(diagnosis));
  parts.push(
    diagnosis.findings.length
      ? fillList(element("ul", { class: "findings" }), diagnosis.findings, (finding) => item(finding, page), FINDINGS)
      : element("p", { class: "none" }, page.classes.length ? "Nothing to complain about." : "Nothing to check yet."),
  );
  byId("doctor-body").replaceChildren(...parts);
}

// The check-up of many classes takes a while: it is made when somebody wants it.
export function offerCheckUp(classes, check) {
  const button = element("button", { type: "button", id: "doctor-ask", onclick: () => {
    button.disabled = true;
    button.textContent = "Checking…";
    check();
  } }, `Check ${plural(classes, "class", "classes")}`);
  byId("doctor-body").replaceChildren(button);
}

const whole = (value) => `${Math.round(value)}\u202f%`;

function expectation(diagnosis) {
  const { expected_accuracy: accuracy, expected_low: low, expected_high: high, learning_curve: curve } = diagnosis;
  return element(
    "div",
    { class: "expect" },
    element(
      "div",
      {},
      element("p", { class: "figure" }, whole(accuracy)),
      element("p", { class: "quiet" }, `of new images should be named correctly (${Math.round(low)} to ${whole(high)}), judging by your own examples left out one at a time.`),
    ),
    curve.length > 1 ? drawCurve(curve) : null,
  );
}

// Accuracy against the number of examples: whether more of them would still help.
function drawCurve(curve) {
  const [width, height, left, bottom, top] = [306, 120, 46, 24, 12];
  const most = curve.at(-1).images;
  const floor = Math.max(0, Math.floor(Math.min(...curve.map((point) => point.low)) / 10) * 10 - 10);
  const x = (images) => left + ((images - curve[0].images) / Math.max(1, most - curve[0].images)) * (width - left - 14);
  const y = (value) => top + ((100 - value) / (100 - floor)) * (height - top - bottom);
  const path = (points) => points.map(([images, value], index) => `${index ? "L" : "M"}${x(images).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const band = [...curve.map((point) => [point.images, point.high]), ...curve.toReversed().map((point) => [point.images, point.low])];
  const word = (text, at) => {
    const node = shape("text", at);
    node.textContent = text;
    return node;
  };
  const spoken = curve.map((point) => `${point.images}: ${whole(point.accuracy)}`).join(", ");
  return element(
    "figure",
    { class: "curve" },
    element("figcaption", {}, "With so many examples per class"),
    shape(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Expected accuracy by examples per class. ${spoken}` },
      ...[100, floor].map((value) => shape("line", { class: "rule", x1: left, x2: width - 14, y1: y(value), y2: y(value) })),
      ...[100, floor].map((value) => word(whole(value), { x: left - 7, y: y(value) + 4, "text-anchor": "end" })),
      shape("path", { class: "band", d: `${path(band)}Z` }),
      shape("path", { class: "course", d: path(curve.map((point) => [point.images, point.accuracy])) }),
      ...curve.map((point) => shape("circle", { cx: x(point.images), cy: y(point.accuracy), r: 3 })),
      ...curve.filter((_, index) => index === 0 || index === curve.length - 1).map((point) => word(point.images, { x: x(point.images), y: height - 6, "text-anchor": "middle" })),
    ),
  );
}

function item(finding, page) {
  const images = finding.images.slice(0, SHOWN);
  return element(
    "li",
    { class: `finding ${finding.severity}`, "data-kind": finding.kind },
    element("span", { class: "severity" }, WORDS[finding.severity]),
    element("div", {}, element("p", {}, finding.message), element("p", { class: "quiet" }, finding.advice)),
    images.length
      ? element(
          "div",
          { class: "meant" },
          ...images.map((id) => picture(id, finding, page)),
          element("button", { type: "button", class: "keep-finding", title: "Do not mention this again", onclick: () => change(page, () => api.keep(finding.kind, finding.images)) },
            keeping(finding.images.length)),
        )
      : null,
  );
}

// Beside "keep one of them", a bare "Keep" might do that.
const keeping = (images) => ["Keep", "Keep both"][images - 1] ?? `Keep all ${images}`;

// An image that a finding is about, and what can be done with it.
function picture(id, finding, page) {
  const mine = page.classOf.get(id);
  const label = mine ? `An image of ${mine}` : "The image meant";
  const tool = (kind, said, act) => element("button", { type: "button", class: `tool ${kind}`, "aria-label": `${said}: ${label}`, title: said, onclick: act });
  const other = finding.kind === "looks_like_another" ? finding.classes.find((name) => name !== mine) : null;
  return element(
    "figure",
    { class: "suspect" },
    thumbnail(id, label, page.state.keeps_images),
    element(
      "figcaption",
      {},
      tool("move", other ? `Move to ${other}` : "Move to another class", () => move(page, id, mine, other)),
      tool("remove", "Remove", () => change(page, () => api.removeImage(id))),
    ),
  );
}

async function change(page, act) {
  try {
    const done = await act();
    await page.refresh();
    notice(done.message, { undo: () => page.undo() });
  } catch (error) {
    failure(error);
  }
}

async function move(page, id, mine, other) {
  let name = other;
  if (!name) {
    const field = element("input", { id: "move-name", maxlength: "80", list: "class-names", required: true, autocomplete: "off" });
    const title = mine ? `Move this image of ${mine}` : "Move this image";
    const given = await ask(title, [element("label", { class: "label", for: "move-name" }, "To the class"), field], [["Move", () => tidy(field.value)], ["Cancel", null]]);
    if (!given) return;
    name = await meant(given, page.classes.map((each) => each.name));
    if (!name) return;
  }
  await change(page, () => api.moveImage(id, name));
}

export function showHistory(changes) {
  const line = (change) => element("li", { class: change.undone ? "undone" : "", value: change.number }, change.what, element("span", { class: "quiet" }, ` ${when(change.when)}${change.undone ? ", undone" : ""}`));
  fillList(byId("history"), changes.toReversed(), line, CHANGES);
}

function when(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
