// The server, one function per thing it can do. Every failure is an Error whose message is a sentence for people.

const project = new URLSearchParams(location.search).get("project"); // else the one that the server was started with

// With the project that this tab shows: another tab may show another one.
function place(path) {
  const url = new URL(`/api/${path}`, location.origin);
  if (project) url.searchParams.set("project", project);
  return `${url.pathname}${url.search}`;
}

export const imageAddress = (id) => place(`image/${id}`);

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(place(path), { cache: "no-store", ...options });
  } catch {
    throw new Error("The server does not answer; is `fscil serve` still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  const error = new Error(body.error || `The server answered ${response.status}.`);
  throw Object.assign(error, { status: response.status, skipped: body.skipped ?? [] });
}

const get = async (path) => (await ask(path)).json();

const post = async (path, body) =>
  (await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body ?? {}) })).json();

async function send(path, field, images, values = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(values)) form.append(name, value);
  for (const image of images) form.append(field, image, image.name || "drawing.png");
  return (await ask(path, { method: "POST", body: form })).json();
}

export const api = {
  state: () => get("state"),
  classes: () => get("classes"),
  images: (name) => get(`images?name=${encodeURIComponent(name)}`),
  map: () => get("map"),
  doctor: () => get("doctor"),
  history: () => get("history"),
  learn: (name, images) => send("learn", "images", images, { name }),
  predict: async (image, top) => (await send("predict", "images", [image], { top }))[0],
  explain: (image, count) => send("explain", "image", [image], { count }),
  rename: (old, name) => post("rename", { old, new: name }),
  forget: (name) => post("forget", { name }),
  moveImage: (id, to) => post("move-image", { id, to }),
  keep: (kind, images) => post("keep", { kind, images }),
  makeProject: (name, encoder) => post("projects", { name, encoder }),
  invite: () => post("invite"),
  removeImage: (id) => post("remove-image", { id }),
  undo: () => post("undo"),
  threshold: (value, rate) => post("threshold", { value, false_alarms: rate }),
  exportStage: async () => (await get("export-stage")).stage,
  // `arrived` hears, as it comes, which share of the file is here.
  export: async (arrived) => {
    const response = await ask("export");
    const named = /filename="?([^";]+)/.exec(response.headers.get("content-disposition") || "");
    const size = Number(response.headers.get("content-length"));
    const parts = [];
    let bytes = 0;
    for (const reader = response.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      arrived((bytes += value.length) / (size || bytes));
    }
    return { blob: new Blob(parts, { type: "application/octet-stream" }), name: named ? named[1] : "model.onnx" };
  },
};
