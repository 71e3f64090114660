// The doctor's findings, each with what to do, and the history of changes.
import { byId, element, shape, thumbnail } from "./dom.js";

const WORDS = { problem: "Problem", warning: "Look at this", info: "Good to know" };
const SHOWN = 6; // images beside a finding

export function showDoctor(diagnosis, page) {
  const findings = diagnosis.findings.map((finding) => item(finding, page));
  const parts = [];
  if (diagnosis.expected_accuracy != null) parts.push(expectation(diagnosis));
  parts.push(
    findings.length
      ? element("ul", { class: "findings" }, ...findings)
      : element("p", { class: "none" }, page.classes.length ? "Nothing to complain about." : "Nothing to check yet."),
  );
  byId("doctor-body").replaceChildren(...parts);
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
  const [width, height, left, bottom, top] = [300, 120, 40, 24, 12];
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
  const images = finding.images.slice(0, SHOWN).map((id) => thumbnail(id, "The image meant", page.state.keeps_images));
  return element(
    "li",
    { class: `finding ${finding.severity}` },
    element("span", { class: "severity" }, WORDS[finding.severity]),
    element("div", {}, element("p", {}, finding.message), element("p", { class: "quiet" }, finding.advice)),
    images.length ? element("div", { class: "strip" }, ...images) : null,
  );
}

export function showHistory(changes) {
  byId("history").replaceChildren(
    ...changes.toReversed().map((change) =>
      element("li", { class: change.undone ? "undone" : "", value: change.number }, change.what, element("span", { class: "quiet" }, ` ${when(change.when)}${change.undone ? ", undone" : ""}`)),
    ),
  );
}

function when(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? text : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
