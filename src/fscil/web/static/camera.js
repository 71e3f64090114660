// Pictures from the camera, cut to the middle square. Teach and Try share one camera; while nobody sees the page, nobody
// sees through it: it is switched off, and on again when the page is back.

const SIDE = 512;
const users = new Set(); // cameras of the page that look through it
let opening = null; // promise of the stream

function borrow(camera) {
  users.add(camera);
  opening ??= open();
  return opening;
}

function giveBack(camera) {
  users.delete(camera);
  if (users.size || !opening) return;
  const last = opening;
  opening = null;
  last.then((stream) => stream.getTracks().forEach((track) => track.stop()), () => {});
}

async function open() {
  if (!navigator.mediaDevices) {
    throw new Error("The browser gives cameras only to pages of this machine or over https; choose a picture instead.");
  }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    for (const track of stream.getTracks()) track.addEventListener("ended", () => [...users].forEach((each) => each.lose()));
    return stream;
  } catch {
    throw new Error("There is no camera, or it may not be used; choose a picture instead.");
  }
}

export class Camera {
  // `changed`: it was wanted, began or ceased to show pictures; `failed`: with an error, when it ended by itself.
  constructor(video, changed, failed) {
    Object.assign(this, { video, changed, failed });
    this.wanted = false;
    document.addEventListener("visibilitychange", () => {
      if (!this.wanted) return;
      if (document.hidden) this.close();
      else this.look().catch((error) => this.lose(error));
    });
  }

  get ready() {
    return this.video.srcObject !== null && this.video.videoWidth > 0;
  }

  async start() {
    this.wanted = true;
    this.changed();
    try {
      if (!document.hidden) await this.look();
    } catch (error) {
      this.stop();
      throw error;
    }
  }

  stop() {
    this.wanted = false;
    this.close();
  }

  lose(error = new Error("The camera is gone; connect it and start it again.")) {
    if (!this.wanted) return;
    this.stop();
    this.failed(error);
  }

  async look() {
    const round = (this.round = {});
    let stream;
    try {
      stream = await borrow(this);
    } catch (error) {
      opening = null;
      users.clear();
      throw error;
    }
    if (round !== this.round) return; // closed meanwhile
    this.video.srcObject = stream;
    await this.video.play().catch(() => {}); // cut short where it is closed at once
    if (round === this.round) this.changed();
  }

  close() {
    this.round = null;
    this.video.srcObject = null;
    giveBack(this);
    this.changed();
  }

  picture() {
    const { videoWidth: width, videoHeight: height } = this.video;
    const square = Math.min(width, height);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = Math.min(SIDE, square);
    canvas.getContext("2d").drawImage(
      this.video, (width - square) / 2, (height - square) / 2, square, square, 0, 0, canvas.width, canvas.height,
    );
    return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.92));
  }
}
