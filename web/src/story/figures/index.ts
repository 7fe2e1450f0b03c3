/** The figures of the story by the names that its text uses, each with its badge. */

import type { Component } from "svelte";
import Accounting from "./Accounting.svelte";
import Asks from "./Asks.svelte";
import BiasFlags from "./BiasFlags.svelte";
import Classifier from "./Classifier.svelte";
import Columns from "./Columns.svelte";
import Concat from "./Concat.svelte";
import Cross from "./Cross.svelte";
import Grid from "./Grid.svelte";
import HeadSheet from "./HeadSheet.svelte";
import Messages from "./Messages.svelte";
import Model from "./Model.svelte";
import OutputSum from "./OutputSum.svelte";
import Patches from "./Patches.svelte";
import Polarity from "./Polarity.svelte";
import Predict from "./Predict.svelte";
import Prefix from "./Prefix.svelte";
import Project from "./Project.svelte";
import Readings from "./Readings.svelte";
import Results from "./Results.svelte";
import Rgb from "./Rgb.svelte";
import Rows from "./Rows.svelte";
import ShapeMap from "./ShapeMap.svelte";
import Stored from "./Stored.svelte";
import Study from "./Study.svelte";
import Surprise from "./Surprise.svelte";
import type { FigureProps } from "./surface";
import TwoSource from "./TwoSource.svelte";
import Weighing from "./Weighing.svelte";
import WideHead from "./WideHead.svelte";
import Window from "./Window.svelte";

export type BadgeKind = "illustration" | "hand-chosen" | "measured";

export interface StoryFigure {
  view: Component<FigureProps>;
  badge: BadgeKind;
}

export const FIGURES: Readonly<Record<string, StoryFigure>> = {
  accounting: { view: Accounting, badge: "hand-chosen" },
  asks: { view: Asks, badge: "hand-chosen" },
  "bias-flags": { view: BiasFlags, badge: "illustration" },
  classifier: { view: Classifier, badge: "hand-chosen" },
  columns: { view: Columns, badge: "hand-chosen" },
  concat: { view: Concat, badge: "hand-chosen" },
  cross: { view: Cross, badge: "illustration" },
  grid: { view: Grid, badge: "hand-chosen" },
  "head-sheet": { view: HeadSheet, badge: "hand-chosen" },
  messages: { view: Messages, badge: "hand-chosen" },
  model: { view: Model, badge: "measured" },
  "output-sum": { view: OutputSum, badge: "hand-chosen" },
  patches: { view: Patches, badge: "illustration" },
  polarity: { view: Polarity, badge: "hand-chosen" },
  predict: { view: Predict, badge: "hand-chosen" },
  prefix: { view: Prefix, badge: "hand-chosen" },
  project: { view: Project, badge: "hand-chosen" },
  readings: { view: Readings, badge: "illustration" },
  results: { view: Results, badge: "measured" },
  rgb: { view: Rgb, badge: "illustration" },
  rows: { view: Rows, badge: "hand-chosen" },
  "shape-map": { view: ShapeMap, badge: "hand-chosen" },
  stored: { view: Stored, badge: "hand-chosen" },
  study: { view: Study, badge: "measured" },
  surprise: { view: Surprise, badge: "hand-chosen" },
  "two-source": { view: TwoSource, badge: "hand-chosen" },
  weighing: { view: Weighing, badge: "hand-chosen" },
  "wide-head": { view: WideHead, badge: "hand-chosen" },
  window: { view: Window, badge: "illustration" },
};
