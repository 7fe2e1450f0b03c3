/** The arrows of an illustrated sentence, as the text writes them. */

export interface Link {
  /** Index of the token that reads. */
  from: number;
  /** Index of the token that is read. */
  to: number;
  /** What is read. */
  says: string;
}

/** `4>2 colour; 4>3 material`: from, to (counted from 1), and what is read. Throws where it is not. */
export function readLinks(text: string, count: number): Link[] {
  return text.split(";").map((part) => {
    const [, from, to, says = ""] = /^\s*(\d+)>(\d+)\s+(.*?)\s*$/.exec(part) ?? [];
    const link = { from: Number(from) - 1, to: Number(to) - 1, says };
    if (!(link.from >= 0 && link.from < count && link.to >= 0 && link.to < count)) {
      throw new Error(`link "${part}" must be FROM>TO WHAT, with tokens from 1 to ${count}`);
    }
    return link;
  });
}
