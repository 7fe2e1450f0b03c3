/** How the blocks of a frame are parted for its layout. */

import type { Block, Frame } from "./inline";

export interface FrameParts {
  words: Block[];
  /** What stands beside the words: figures, or code where there is no figure. */
  figures: Block[];
  /** For layout cards: each heading with what follows it. */
  cards: Block[][];
}

export function parted({ blocks, layout }: Frame): FrameParts {
  const hasFigure = blocks.some(({ kind }) => kind === "figure");
  const isPicture = ({ kind }: Block) => kind === (hasFigure ? "figure" : "code");
  const figures = blocks.filter(isPicture);
  const words = blocks.filter((block) => !isPicture(block));
  const cards: Block[][] = [];
  if (layout === "cards") {
    for (const block of blocks) {
      if (block.kind === "heading" || cards.length === 0) cards.push([block]);
      else cards.at(-1)?.push(block);
    }
  }
  return { words, figures, cards };
}
