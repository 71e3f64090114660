// Files dropped on a part of the page, or pasted while it has the keyboard.

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
    if (files.length) take(files);
  });
  target.addEventListener("paste", (event) => {
    const files = [...event.clipboardData.files];
    if (files.length) take(files);
  });
}
