// What is taken of folders and zips.

export const MOST = 5000; // pictures at once
const PICTURE = /\.(png|jpe?g|jpe|jfif|webp|bmp|gif|tiff?|ppm|pgm|pbm|heic|heif)$/i;

// Without what systems hide in folders and zips.
export const isPicture = (path) => PICTURE.test(path) && !path.split("/").some((part) => part.startsWith(".") || part === "__MACOSX");

export function tooMany() {
  return new Error(`More than ${MOST} pictures at once are too many; give the folders in several portions.`);
}
