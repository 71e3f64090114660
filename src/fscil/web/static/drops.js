// Files and folders dropped on a part of the page, or pasted while it has the keyboard.
import { entriesOf } from "./folders.js";

// `take` gets the files, and the entries of the file system where folders are among them.
export function takeDrops(target, take) {
  let inside = 0; // enter and leave come for every child
  const over = (count) => {
    inside = count;
    target.classList.toggle("over", inside > 0);
  };
  target.addEventListener("dragenter", (event) => {
    event.preventDefault();
    over(inside + 1);
  });
  target.addEventListener("dragleave", () => over(Math.max(0, inside - 1)));
  target.addEventListener("dragover", (event) => event.preventDefault());
  target.addEventListener("drop", (event) => {
    event.preventDefault();
    over(0);
    const files = [...event.dataTransfer.files];
    const entries = entriesOf(event.dataTransfer);
    if (files.length) take(files, entries.some((entry) => entry.isDirectory) ? entries : null);
  });
  target.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length) take(files, null);
  });
}
