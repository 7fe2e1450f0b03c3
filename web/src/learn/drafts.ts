/** What is being written and not yet kept; it lives until the page is closed. */

const drafts = new Map<string, readonly string[]>();

export function draftOf(name: string): readonly string[] {
  return drafts.get(name) ?? [];
}

export function keepDraft(name: string, texts: readonly string[]): void {
  drafts.set(name, [...texts]);
}

export function dropDraft(name: string): void {
  drafts.delete(name);
}
