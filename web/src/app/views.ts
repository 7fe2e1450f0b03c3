/** The views of the page, in the order of its navigation. A new view is a folder and an entry here. */

import type { Component } from "svelte";
import Learn from "../learn/Learn.svelte";
import Look from "../look/Look.svelte";
import Models from "../models/Models.svelte";
import { isPresenter } from "../story/presenter";
import Story from "../story/Story.svelte";
import Study from "../study/Study.svelte";
import Teach from "../teach/Teach.svelte";
import Worksheet from "../worksheet/Worksheet.svelte";
import type { ViewProps } from "./address";

export interface View {
  /** As in the address. */
  name: string;
  title: string;
  component: Component<ViewProps>;
  /** Whether a place of the view takes the whole window, without the header. */
  isBare?: (rest: string) => boolean;
}

export const VIEWS: readonly View[] = [
  { name: "story", title: "Story", component: Story, isBare: isPresenter },
  { name: "worksheet", title: "Worksheet", component: Worksheet },
  { name: "models", title: "Models", component: Models },
  { name: "look", title: "Look", component: Look },
  { name: "study", title: "Study", component: Study },
  { name: "learn", title: "Learn", component: Learn },
  { name: "teach", title: "Teach", component: Teach as Component<ViewProps> },
];
