// The server, one function per thing it can do. Every failure is an Error whose message is a sentence for people.

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(`/api/${path}`, { cache: "no-store", ...options });
  } catch {
    throw new Error("The server does not answer; is `fscil serve` still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Error(body.error || `The server answered ${response.status}.`);
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
  removeImage: (id) => post("remove-image", { id }),
  undo: () => post("undo"),
  threshold: (value) => post("threshold", { value }),
  export: async () => {
    const response = await ask("export");
    const named = /filename="?([^";]+)/.exec(response.headers.get("content-disposition") || "");
    return { blob: await response.blob(), name: named ? named[1] : "model.onnx" };
  },
};
