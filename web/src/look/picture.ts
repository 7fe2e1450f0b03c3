/** The picture of a head: colour by the square root of the weight, hatched where the mask blocks. */

import { type WeightMap, weightOf } from "./saved";

const SIDE = 640;
const HATCH = 6;

/** How strongly a point of the picture is coloured, 0 to 1; null for a line of the hatching. */
export function strengthAt(map: WeightMap, scale: number, x: number, y: number): number | null {
  const weight = weightOf(map, Math.floor(y / scale), Math.floor(x / scale));
  if (weight !== null) return Math.sqrt(weight);
  const every = scale === 1 ? 3 : HATCH;
  return (x + y) % every === 0 ? null : 0;
}

/** Draw a head in the colour of the canvas's text; the ground shows through. */
export function paint(canvas: HTMLCanvasElement, map: WeightMap): void {
  const scale = Math.max(1, Math.floor(SIDE / Math.max(map.rows, map.columns)));
  const [width, height] = [map.columns * scale, map.rows * scale];
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  if (!context) return;
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(canvas).color.match(/\d+/g) ?? []).map(
    Number,
  );
  const image = context.createImageData(width, height);
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++, at += 4) {
      const strength = strengthAt(map, scale, x, y);
      const colour = strength === null ? [128, 128, 128, 130] : [red, green, blue, 255 * strength];
      image.data.set(colour, at);
    }
  context.putImageData(image, 0, 0);
}
