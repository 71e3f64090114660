// Pictures from the camera, cut to the middle square.

const SIDE = 512;

export class Camera {
  constructor(video) {
    this.video = video;
    this.stream = null;
  }

  get ready() {
    return this.stream !== null;
  }

  async start() {
    if (!navigator.mediaDevices) {
      throw new Error("The browser gives cameras only to pages of this machine or over https; choose pictures instead.");
    }
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      throw new Error("There is no camera, or it may not be used; choose pictures instead.");
    }
    this.video.srcObject = this.stream;
    await this.video.play();
  }

  stop() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = this.video.srcObject = null;
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
