// A sheet to draw on. Strokes are kept as points, so that the picture that is sent can be drawn afresh at the size,
// place and pen width of the characters the encoder was trained on, however large or small the hand wrote.

const PEN = 0.05; // of the sheet, as seen on the page
const PICTURE = 128; // pixels of the picture that is sent
const FIT = 0.7; // of the picture: the longer side of the drawing, as in fscil.data.glyphs
const INK = 0.08; // of the picture: pen width, about that of printed text
const SMALLEST = 0.2; // of the sheet: smaller drawings (a dot) are not blown up further

export class Pad {
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.strokes = [];
    this.pen = null;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => this.up(event));
    new ResizeObserver(() => this.paint()).observe(canvas);
  }

  get empty() {
    return this.strokes.length === 0;
  }

  clear() {
    this.strokes = [];
    this.pen = null;
    this.paint();
    this.changed();
  }

  takeBackStroke() {
    this.strokes.pop();
    this.paint();
    this.changed();
  }

  down(event) {
    if (this.pen !== null || event.button > 0) return; // one finger draws; the others rest
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.pen = event.pointerId;
    this.strokes.push([this.place(event)]);
    this.paint();
    this.changed();
  }

  move(event) {
    if (event.pointerId !== this.pen) return;
    const steps = event.getCoalescedEvents?.() ?? [];
    for (const step of steps.length ? steps : [event]) this.strokes.at(-1).push(this.place(step));
    this.paint();
    this.changed();
  }

  up(event) {
    if (event.pointerId !== this.pen) return;
    this.pen = null;
    this.changed();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  }

  paint() {
    const side = Math.round(this.canvas.clientWidth * devicePixelRatio);
    if (!side) return;
    if (this.canvas.width !== side) this.canvas.width = this.canvas.height = side;
    const brush = this.canvas.getContext("2d");
    brush.clearRect(0, 0, side, side);
    draw(brush, this.strokes, PEN * side, (point) => ({ x: point.x * side, y: point.y * side }));
    this.canvas.parentElement.classList.toggle("used", !this.empty);
  }

  // The drawing as a PNG: black on white, fitted and centred.
  picture() {
    const points = this.strokes.flat();
    const [left, right] = range(points.map((point) => point.x));
    const [top, bottom] = range(points.map((point) => point.y));
    const scale = ((FIT - INK) * PICTURE) / Math.max(right - left, bottom - top, SMALLEST);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = PICTURE;
    const brush = canvas.getContext("2d");
    brush.fillStyle = "#fff";
    brush.fillRect(0, 0, PICTURE, PICTURE);
    draw(brush, this.strokes, INK * PICTURE, (point) => ({
      x: (point.x - (left + right) / 2) * scale + PICTURE / 2,
      y: (point.y - (top + bottom) / 2) * scale + PICTURE / 2,
    }));
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }
}

function range(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

// Curves through the midpoints of what the pointer reported: smooth, without a lag behind the pen.
function draw(brush, strokes, width, to) {
  brush.lineWidth = width;
  brush.lineCap = brush.lineJoin = "round";
  brush.strokeStyle = "#111";
  for (const stroke of strokes) {
    const points = stroke.map(to);
    brush.beginPath();
    brush.moveTo(points[0].x, points[0].y);
    for (let i = 1; i < points.length - 1; i++) {
      const next = points[i + 1];
      brush.quadraticCurveTo(points[i].x, points[i].y, (points[i].x + next.x) / 2, (points[i].y + next.y) / 2);
    }
    const last = points.at(-1);
    brush.lineTo(last.x + (points.length === 1 ? 0.01 : 0), last.y); // a dot is a very short line
    brush.stroke();
  }
}
