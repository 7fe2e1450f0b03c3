/** What readers call the models of the study. */
export const TITLES: Record<string, string> = {
  mlp: "No attention",
  "one-head": "One head",
  "four-heads": "Four heads",
};
