/** What readers call the studies. */
export const STUDY_TITLES: Record<string, string> = {
  "three-models": "Three models, one protocol",
  "own-recipe": "The same models by a quicker recipe",
  "head-count": "How many heads?",
};
