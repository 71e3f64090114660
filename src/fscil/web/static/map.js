// The map: every example where the network puts it, class names in the middle of their examples.
import { imageAddress } from "./api.js";
import { byId, element, plural, shape } from "./dom.js";

const WIDTH = 560;
const HEIGHT = 520;
const MARGIN = 38;
const TILE = 22;
const TILES = 400; // more examples than this are drawn as dots
const LABELS = 60; // more classes than this are named only under the pointer
const LEAST = 0.5; // features have length 1: examples closer than this stay close on the map
const LETTER = 7.6; // width of a letter of a label, roughly

export function showMap(points, keepsImages, fresh) {
  const frame = byId("map-frame");
  if (!points.length) {
    frame.replaceChildren(element("p", { class: "none" }, "The map is empty until something is taught."));
    return;
  }
  const place = fit(points);
  const tiles = keepsImages && points.length <= TILES;
  const placed = points.map((point) => ({ ...point, ...place(point) }));
  const classes = group(tiles ? loosen(placed) : placed);
  const drawn = [...classes].map(([name, members]) => drawClass(name, members, tiles, fresh.has(name)));
  const labels = classes.size <= LABELS ? spread([...classes].map(([name, members]) => label(name, members))) : [];
  const svg = shape(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": `Map of ${plural(points.length, "example")} in ${plural(classes.size, "class", "classes")}: ${[...classes.keys()].slice(0, 30).join(", ")}`,
    },
    ...drawn,
    ...labels.map((each) => drawLabel(each, fresh.has(each.name))),
  );
  svg.addEventListener("pointerover", ({ target }) => nameClass(target.closest(".kind"), classes));
  frame.replaceChildren(svg);
}

// Scales that fill the frame, but differ by no more than a little: distances on the map should mean something.
function fit(points) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const room = { x: WIDTH - 2 * MARGIN, y: HEIGHT - 2 * MARGIN };
  const scale = { x: room.x / Math.max(right - left, LEAST), y: room.y / Math.max(bottom - top, LEAST) };
  const most = 2.2 * Math.min(scale.x, scale.y);
  return (point) => ({
    x: WIDTH / 2 + (point.x - (left + right) / 2) * Math.min(scale.x, most),
    y: HEIGHT / 2 - (point.y - (top + bottom) / 2) * Math.min(scale.y, most),
  });
}

// Pictures that cover each other step aside a little, so that each can be seen; the neighbourhood stays.
function loosen(points) {
  const least = 0.8 * TILE;
  for (let round = 0; round < 12; round++) {
    for (let i = 0; i < points.length; i++) {
      for (let j = 0; j < i; j++) {
        const [one, other] = [points[i], points[j]];
        const [dx, dy] = [one.x - other.x || 0.1, one.y - other.y];
        const far = Math.hypot(dx, dy);
        if (far >= least) continue;
        const step = (0.25 * (least - far)) / far;
        one.x += dx * step;
        one.y += dy * step;
        other.x -= dx * step;
        other.y -= dy * step;
      }
    }
  }
  return points;
}

function group(points) {
  const classes = new Map();
  for (const point of points) {
    if (!classes.has(point.class_name)) classes.set(point.class_name, []);
    classes.get(point.class_name).push(point);
  }
  return classes;
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const middle = (members) => ({ x: mean(members.map((each) => each.x)), y: mean(members.map((each) => each.y)) });

// All threads of a class are one path, and so are all dots: ends of lines without a length, which are round.
function drawClass(name, members, tiles, isFresh) {
  const centre = middle(members);
  const path = (from, to) => members.map((each) => `M${from(each)}${to(each)}`).join("");
  const at = (point) => `${point.x.toFixed(1)} ${point.y.toFixed(1)}`;
  const threads = shape("path", { class: "threads", d: path(() => at(centre), (each) => `L${at(each)}`) });
  const marks = tiles ? members.map(drawTile) : [shape("path", { class: "dots", d: path(at, () => "h0") })];
  return shape("g", { class: isFresh ? "kind fresh" : "kind", "data-class": name }, threads, ...marks);
}

function drawTile({ image_id, x, y }) {
  return shape(
    "g",
    { class: "tile" },
    shape("image", { href: imageAddress(image_id), x: x - TILE / 2, y: y - TILE / 2, width: TILE, height: TILE, preserveAspectRatio: "xMidYMid slice" }),
    shape("rect", { x: x - TILE / 2, y: y - TILE / 2, width: TILE, height: TILE, rx: 4 }),
  );
}

// What the browser says of a class under the pointer.
function nameClass(kind, classes) {
  if (!kind || kind.querySelector("title")) return;
  const title = shape("title");
  title.textContent = `${kind.dataset.class}, ${plural(classes.get(kind.dataset.class).length, "example")}`;
  kind.prepend(title);
}

function label(name, members) {
  const text = name.length > 16 ? `${name.slice(0, 15)}…` : name;
  const top = Math.min(...members.map((each) => each.y)); // above its examples, so as not to hide them
  return { name, text, x: middle(members).x, y: top - TILE / 2 - 12, half: (text.length * LETTER) / 2 + 7 };
}

// Labels that overlap push each other apart, a little at a time.
function spread(labels) {
  const tall = 21;
  for (let round = 0; round < 80; round++) {
    let moved = false;
    for (const one of labels) {
      for (const other of labels) {
        if (one === other) continue;
        const apartX = one.half + other.half - Math.abs(one.x - other.x);
        const apartY = tall - Math.abs(one.y - other.y);
        if (apartX <= 0 || apartY <= 0) continue;
        moved = true;
        if (apartY <= apartX) {
          const step = (apartY / 2 + 0.1) * (one.y < other.y || (one.y === other.y && one.name < other.name) ? -1 : 1);
          one.y += step;
          other.y -= step;
        } else {
          const step = (apartX / 2 + 0.1) * (one.x < other.x ? -1 : 1);
          one.x += step;
          other.x -= step;
        }
      }
    }
    if (!moved) break;
  }
  for (const each of labels) {
    each.x = Math.min(WIDTH - each.half - 2, Math.max(each.half + 2, each.x));
    each.y = Math.min(HEIGHT - 14, Math.max(14, each.y));
  }
  return labels;
}

function drawLabel(each, isFresh) {
  const text = shape("text", { x: each.x, y: each.y + 4.5, "text-anchor": "middle" });
  text.textContent = each.text;
  const pill = shape("rect", { x: each.x - each.half, y: each.y - 10, width: 2 * each.half, height: 20, rx: 10 });
  return shape("g", { class: isFresh ? "tag fresh" : "tag", "aria-hidden": "true" }, pill, text);
}
