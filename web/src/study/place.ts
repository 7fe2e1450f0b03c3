/** Where the reader is in the study view, to and from its part of the address. */

/** The studies in the order of the page. */
export const STUDIES = ["three-models", "own-recipe", "head-count"] as const;

export interface StudyPlace {
  /** The study that the page is scrolled to; null for its beginning. */
  study: string | null;
}

export const FIRST_STUDY_PLACE: StudyPlace = { study: null };

/** The part of the address after `#study/`: the name of a study; "" for the beginning. */
export function encodeStudy(place: StudyPlace): string {
  return place.study ?? "";
}

/** Read what `encodeStudy` wrote; a name that no study has falls back, nothing throws. */
export function decodeStudy(part: string): StudyPlace {
  return { study: STUDIES.find((name) => name === part) ?? null };
}
