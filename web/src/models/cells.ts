/** The cells of a grid, made by hand: eight thousand of them are too many for a template. */

import { valueText } from "../numbers/show";

const SVG = "http://www.w3.org/2000/svg";

/** A drawn grid: who drew what last, so that only what changed is drawn again. */
export class Cells {
  private cells: SVGRectElement[] = [];
  private name = "";
  private shown: Float32Array = new Float32Array();

  constructor(private readonly group: SVGGElement) {}

  /**
   * Show the weights (S, S) on and below the diagonal; each cell has its name and its value.
   *
   * @param name what all names of cells begin with, such as `four-heads:attn_weights[2]`.
   */
  show(weights: Float32Array, size: number, name: string): void {
    const isNew = name !== this.name || weights.length !== this.shown.length;
    if (isNew) this.make(size, name);
    let at = 0;
    for (let row = 0; row < size; row++)
      for (let source = 0; source <= row; source++) {
        const cell = this.cells[at++];
        const weight = weights[row * size + source] ?? 0;
        if (!cell || (!isNew && weight === this.shown[row * size + source])) continue;
        cell.dataset.value = valueText(weight);
        cell.setAttribute("fill-opacity", Math.sqrt(weight).toFixed(4));
      }
    this.shown = weights;
  }

  private make(size: number, name: string): void {
    const row = document.createElementNS(SVG, "g");
    const cell = document.createElementNS(SVG, "rect");
    cell.setAttribute("class", "fill");
    cell.setAttribute("width", "1");
    cell.setAttribute("height", "1");
    this.cells = [];
    const rows = Array.from({ length: size }, (_, receiver) => {
      const own = row.cloneNode() as SVGGElement;
      own.setAttribute("transform", `translate(0 ${receiver})`);
      for (let source = 0; source <= receiver; source++) {
        const made = cell.cloneNode() as SVGRectElement;
        made.setAttribute("x", String(source));
        made.dataset.quantity = `${name}[${receiver}][${source}]`;
        this.cells.push(made);
        own.append(made);
      }
      return own;
    });
    this.group.replaceChildren(...rows);
    this.name = name;
  }
}
