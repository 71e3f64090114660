// Pictures with their paths: from a folder that was dropped or chosen, or from a zip. Nothing is read yet.
import { MOST, isPicture, tooMany } from "./limits.js";
import { readZip } from "./unzip.js";

const DEEPEST = 8; // folders in folders

export const isZip = (file) => /\.zip$/i.test(file.name);

const found = (path, file) => ({ path, size: file.size, read: async () => file });

// Of an <input webkitdirectory>.
export function fromInput(files) {
  const pictures = [...files].filter((file) => isPicture(file.webkitRelativePath || file.name));
  if (pictures.length > MOST) throw tooMany();
  return pictures.map((file) => found(file.webkitRelativePath || file.name, file));
}

// Of a drop, which must be asked at once for its entries: afterwards it has none.
export function entriesOf(data) {
  return [...(data.items ?? [])].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
}

export async function fromEntries(entries) {
  const pictures = [];
  for (const entry of entries) await walk(entry, pictures, 0);
  return pictures;
}

async function walk(entry, pictures, depth) {
  const path = entry.fullPath.replace(/^\/+/, "");
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    if (isZip(file) && depth === 0) pictures.push(...(await readZip(file)));
    else if (isPicture(path)) pictures.push(found(path, file));
    if (pictures.length > MOST) throw tooMany();
    return;
  }
  if (depth > DEEPEST) throw new Error(`${path} lies more than ${DEEPEST} folders deep; give the folder of the classes.`);
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // at most a hundred
    if (!some.length) return;
    for (const each of some) await walk(each, pictures, depth + 1);
  }
}

// Pictures by class: a class is a folder, with all that lies in it. One folder around all others is no class.
export function byClass(pictures) {
  let paths = pictures.map((picture) => ({ picture, parts: picture.path.split("/") }));
  const tops = new Set(paths.map((each) => each.parts[0]));
  if (tops.size === 1 && paths.some((each) => each.parts.length > 2)) {
    paths = paths.map((each) => ({ ...each, parts: each.parts.slice(1) }));
  }
  const classes = new Map();
  let loose = 0;
  for (const { picture, parts } of paths) {
    if (parts.length < 2) loose += 1;
    else classes.set(parts[0], [...(classes.get(parts[0]) ?? []), picture]);
  }
  return { classes, loose };
}
