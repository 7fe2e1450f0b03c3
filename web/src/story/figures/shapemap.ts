/** The map of shapes: what is made from what, level by level. */

import type { Quantity } from "../../engine/types";
import { numberNamed } from "./engine";
import { labels } from "./surface";

export interface ShapeNode {
  id: string;
  title: string;
  /** How far along the way, and how far to the side (0 is the middle). */
  level: number;
  lane: number;
  shape: Quantity[];
  head: number | null;
  isGiven: boolean;
  /** The build with which it appears. */
  from: number;
}

export interface ShapeMap {
  nodes: ShapeNode[];
  edges: [ShapeNode, ShapeNode][];
}

type Spec = [
  id: string,
  title: string,
  level: number,
  lane: number,
  from: number,
  head: number | null,
];

const says = labels.shapeMap;
const SPECS: Spec[] = [
  ["x", "X", 0, 0, 0, null],
  ["q0", "Q", 1, -2.5, 1, 0],
  ["k0", "K", 1, -1.5, 1, 0],
  ["v0", "V", 1, -0.5, 1, 0],
  ["q1", "Q", 1, 0.5, 1, 1],
  ["k1", "K", 1, 1.5, 1, 1],
  ["v1", "V", 1, 2.5, 1, 1],
  ["a0", `${says.weights} 1`, 2, -1.5, 2, 0],
  ["a1", `${says.weights} 2`, 2, 1.5, 2, 1],
  ["m0", `${says.message} 1`, 3, -1.5, 3, 0],
  ["m1", `${says.message} 2`, 3, 1.5, 3, 1],
  ["c", says.joined, 4, 0, 4, null],
  ["o", says.output, 5, 0, 5, null],
  ["u", says.updated, 6, 0, 6, null],
  ["p", says.words, 7, 0, 7, null],
];
const EDGES = [
  "x q0",
  "x k0",
  "x v0",
  "x q1",
  "x k1",
  "x v1",
  "q0 a0",
  "k0 a0",
  "q1 a1",
  "k1 a1",
  "a0 m0",
  "v0 m0",
  "a1 m1",
  "v1 m1",
  "m0 c",
  "m1 c",
  "c o",
  "o u",
  "u p",
];
const FIELDS: Record<string, string> = {
  x: "x",
  q: "q",
  k: "k",
  v: "v",
  a: "attn_weights",
  m: "head_outputs",
  c: "concat",
  o: "output",
  u: "updated",
  p: "probabilities",
};

/** Rows and columns of one head's field, or of a field that has no heads. */
function shapeOf(id: string): Quantity[] {
  const letter = id[0] ?? "";
  const axes = "qkvam".includes(letter) ? [1, 2] : [0, 1];
  const field = FIELDS[letter] ?? "";
  const name = (axis: number) => `shape:river-and-cheque:river.${field}[${axis}]`;
  return letter === "p"
    ? [numberNamed("one:row"), numberNamed(name(1))]
    : axes.map((axis) => numberNamed(name(axis)));
}

export function shapeMap(): ShapeMap {
  const nodes = SPECS.map(([id, title, level, lane, from, head]) => ({
    id,
    title,
    level,
    lane,
    from,
    head,
    isGiven: id === "x",
    shape: shapeOf(id),
  }));
  const node = (id: string) => {
    const found = nodes.find((one) => one.id === id);
    if (!found) throw new Error(`the map has no ${id}`);
    return found;
  };
  return {
    nodes,
    edges: EDGES.map((edge) => {
      const [from = "", to = ""] = edge.split(" ");
      return [node(from), node(to)];
    }),
  };
}
