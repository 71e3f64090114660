// Pictures in a zip, unpacked here in the browser, one when it is wanted: the server never sees the zip. What a zip says
// of itself is not believed: not its names, nor its sizes.
import { MOST, isPicture, tooMany } from "./limits.js";

const MEGABYTE = 1_000_000;
const MOST_BYTES = 4000 * MEGABYTE; // unpacked
const MOST_DIRECTORY = 32 * MEGABYTE; // bytes of its table of contents
const MOST_OF_ONE = 20 * MEGABYTE; // what the server takes of one picture
const [END, ENTRY, LOCAL] = [0x06054b50, 0x02014b50, 0x04034b50];
const LINK = 0o120000;

const unreadable = (name) => new Error(`${name} is no zip that can be read; pack it again, or drop the folder itself.`);

export async function readZip(file) {
  const { view, count, start } = await contents(file);
  const entries = [];
  let at = 0;
  for (let number = 0; number < count; number++) {
    if (at + 46 > view.byteLength || view.getUint32(at, true) !== ENTRY) throw unreadable(file.name);
    const [named, extra, comment] = [28, 30, 32].map((offset) => view.getUint16(at + offset, true));
    const entry = {
      flags: view.getUint16(at + 8, true),
      method: view.getUint16(at + 10, true),
      packed: view.getUint32(at + 20, true),
      size: view.getUint32(at + 24, true),
      unix: view.getUint8(at + 5) === 3 ? view.getUint16(at + 40, true) : 0,
      offset: view.getUint32(at + 42, true),
    };
    if (at + 46 + named > view.byteLength) throw unreadable(file.name);
    entry.path = decode(new Uint8Array(view.buffer, view.byteOffset + at + 46, named)).replaceAll("\\", "/");
    entries.push(entry);
    at += 46 + named + extra + comment;
  }
  check(file, entries, start);
  const pictures = entries.filter((entry) => isPicture(entry.path));
  if (pictures.length > MOST) throw tooMany();
  return pictures.map((entry) => ({ path: entry.path, size: entry.size, read: () => unpack(file, entry) }));
}

// The table of contents, which stands at the end.
async function contents(file) {
  const tail = new DataView(await file.slice(Math.max(0, file.size - 65_557)).arrayBuffer());
  let at = tail.byteLength - 22;
  while (at >= 0 && tail.getUint32(at, true) !== END) at -= 1;
  if (at < 0) throw unreadable(file.name);
  const [count, size, start] = [tail.getUint16(at + 10, true), tail.getUint32(at + 12, true), tail.getUint32(at + 16, true)];
  if (count === 0xffff || start === 0xffffffff || size > MOST_DIRECTORY) {
    throw new Error(`${file.name} holds too much for one zip; make several, or drop the folder itself.`);
  }
  const end = file.size - tail.byteLength + at;
  if (start + size > end) throw unreadable(file.name);
  return { view: new DataView(await file.slice(start, start + size).arrayBuffer()), count, start };
}

function decode(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

// Tricks are refused, all of the zip with them: nobody packs such by mistake.
function check(file, entries, start) {
  const name = file.name;
  for (const { path, unix, flags } of entries) {
    const parts = path.split("/");
    if (path.startsWith("/") || parts.includes("..") || /^[a-z]:/i.test(path) || /[\u0000-\u001f]/.test(path)) {
      throw new Error(`${name} was refused: “${path.slice(0, 60)}” leads out of its folder. Pack it again, or drop the folder itself.`);
    }
    if ((unix & 0o170000) === LINK) throw new Error(`${name} was refused: “${path.slice(0, 60)}” is a link to another file. Pack it again without links.`);
    if (flags & 1) throw new Error(`${name} is protected by a password; pack it again without one.`);
  }
  const bytes = entries.reduce((sum, entry) => sum + entry.size, 0);
  if (bytes > MOST_BYTES) {
    throw new Error(`${name} unpacks to ${Math.round(bytes / MEGABYTE)} MB, and ${MOST_BYTES / MEGABYTE} MB are taken; make several of it.`);
  }
  // Contents that share bytes make a small file unpack to anything.
  let end = 0;
  for (const entry of entries.toSorted((one, other) => one.offset - other.offset)) {
    if (entry.offset < end) throw new Error(`${name} was refused: its pictures share their bytes, as in a zip bomb. Pack it again.`);
    end = entry.offset + 30 + entry.packed;
  }
  if (end > start) throw unreadable(name);
}

async function unpack(file, entry) {
  const name = entry.path.split("/").at(-1);
  const damaged = () => new Error("damaged inside the zip");
  if (entry.size > MOST_OF_ONE) throw new Error(`larger than ${MOST_OF_ONE / MEGABYTE} MB, scale it down`);
  const head = new DataView(await file.slice(entry.offset, entry.offset + 30).arrayBuffer());
  if (head.byteLength < 30 || head.getUint32(0, true) !== LOCAL) throw damaged();
  const start = entry.offset + 30 + head.getUint16(26, true) + head.getUint16(28, true);
  const packed = file.slice(start, start + entry.packed);
  if (entry.method === 0 && entry.packed === entry.size) return new File([packed], name);
  if (entry.method !== 8) throw new Error("packed in a way that is not known here");
  const parts = [];
  let bytes = 0;
  const reader = packed.stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      bytes += value.length;
      if (bytes > entry.size) break;
      parts.push(value);
    }
  } catch {
    throw damaged();
  }
  if (bytes > entry.size) {
    reader.cancel().catch(() => {});
    throw new Error("unpacks to more than it says");
  }
  if (bytes < entry.size) throw damaged();
  return new File(parts, name);
}
