/** Holds a worksheet that is being changed: its numbers, undo and redo, and what is being explained. */

import {
  type Changes,
  encodeWorksheet,
  givenSheet,
  hasChanges,
  isSameChanges,
  NO_CHANGES,
  placeOfState,
  type WorksheetState,
  withEdit,
  withoutEdits,
} from "../engine/editing";
import { explain } from "../engine/explain";
import { placeLabel } from "../engine/fields";
import { LiveSolved } from "../engine/live";
import { placeKeys } from "../engine/places";
import { givenNumber } from "../engine/sheet";
import type { Catalog } from "../engine/types";
import { isError } from "../numbers/parse";
import type { Desk } from "./figures/desk";
import { advanced, amended, redone, started, type Timeline, undone } from "./undo";

export type How = "push" | "replace";

export interface Surroundings {
  readonly state: WorksheetState;
  readonly catalog: Catalog;
  onchange(state: WorksheetState, how: How): void;
}

export class Workbench implements Desk {
  showsFormer = $state(false);
  /** What screen readers are told last. */
  said = $state("");
  /** Whether the explanation was opened by keyboard, so that the focus goes there. */
  wantsFocus = $state(false);

  private timelines = $state.raw<Readonly<Record<string, Timeline<Changes>>>>({});
  private open: string | null = null;
  private origin: Element | null = null;

  private readonly where = $derived.by(() => placeOfState(this.state, this.around.catalog));
  private readonly given = $derived(givenSheet(this.where.worksheet));

  /** Undo and redo of the worksheet in view; a change from outside, as by a link, is one more step. */
  private readonly timeline = $derived.by(() => {
    const { worksheet, changes } = this.state;
    const known = this.timelines[worksheet];
    if (!known) return started(changes);
    return isSameChanges(known.present, changes) ? known : advanced(known, changes);
  });

  readonly solved = $derived.by(
    () => new LiveSolved(this.where.worksheet, this.where.sequence, this.state.changes),
  );

  /** The trail as far as its numbers exist. */
  readonly trail = $derived.by(() => {
    const missing = this.state.trail.findIndex((name) => this.solved.named(name) === null);
    return missing < 0 ? this.state.trail : this.state.trail.slice(0, missing);
  });

  readonly explanation = $derived.by(() => {
    const name = this.trail.at(-1);
    if (name === undefined) return null;
    const style = this.state.numbers === "decimals" ? "decimals" : "fractions";
    return explain(this.solved.solution, name, style);
  });

  constructor(private readonly around: Surroundings) {}

  get state(): WorksheetState {
    return this.around.state;
  }

  /** The head in view: the only one where all are joined into one wide one. */
  get head(): number {
    return this.changes.isWide ? 0 : this.state.head;
  }

  get changes(): Changes {
    return this.state.changes;
  }

  get asked(): string | null {
    return this.explanation?.quantity ?? null;
  }

  get canUndo(): boolean {
    return this.timeline.past.length > 0;
  }

  get canRedo(): boolean {
    return this.timeline.future.length > 0;
  }

  get isChanged(): boolean {
    return hasChanges(this.changes);
  }

  go(change: Partial<WorksheetState>, how: How = "replace"): void {
    this.around.onchange({ ...this.state, ...change }, how);
  }

  pickWorksheet(name: string): void {
    const { worksheet, sequence } = placeOfState(
      { worksheet: name, sequence: "" },
      this.around.catalog,
    );
    this.go(
      {
        worksheet: worksheet.name,
        sequence: sequence.name,
        head: 0,
        receiver: sequence.tokens.length - 1,
        changes: this.timelines[worksheet.name]?.present ?? NO_CHANGES,
        trail: [],
      },
      "push",
    );
  }

  pickSequence(name: string): void {
    const before = this.solved.tokens.length;
    const { sequence } = placeOfState({ ...this.state, sequence: name }, this.around.catalog);
    const last = sequence.tokens.length - 1;
    const isLast = this.state.receiver === before - 1;
    const receiver = isLast ? last : Math.min(this.state.receiver, last);
    this.go({ sequence: sequence.name, receiver, trail: [] }, "push");
  }

  edit(place: string, text: string): string | null {
    const edits = withEdit(this.given, this.changes.edits, place, text);
    if (isError(edits)) return edits.error.replace(place, this.label(place));
    if (edits !== this.changes.edits) this.change({ edits }, place);
    return null;
  }

  /** Change the sum; changes of one place in a row are one step to undo. */
  change(change: Partial<Changes>, place: string | null = null): void {
    const next = { ...this.changes, ...change };
    const isSameStep = place !== null && place === this.open;
    this.hold(isSameStep ? amended(this.timeline, next) : advanced(this.timeline, next));
    this.open = place;
  }

  settle(): void {
    this.open = null;
  }

  undo(): void {
    this.step(undone(this.timeline), "undone");
  }

  redo(): void {
    this.step(redone(this.timeline), "redone");
  }

  private step(timeline: Timeline<Changes>, word: string): void {
    if (timeline === this.timeline) {
      this.say(`nothing to be ${word}`);
      return;
    }
    this.open = null;
    this.hold(timeline);
    this.say(word);
  }

  private hold(timeline: Timeline<Changes>): void {
    this.timelines = { ...this.timelines, [this.state.worksheet]: timeline };
    this.go({ changes: timeline.present });
  }

  reset(places: readonly string[]): void {
    const edits = withoutEdits(this.changes.edits, places);
    if (edits === this.changes.edits) return;
    this.settle();
    this.change({ edits });
    this.say(places.length === 1 ? "one number reset" : `${places.length} numbers reset`);
  }

  resetAll(): void {
    if (!this.isChanged) return;
    this.settle();
    this.change(NO_CHANGES);
    this.say("the whole worksheet reset");
  }

  isEdited(place: string): boolean {
    return this.changes.edits.some((edit) => edit.place === place);
  }

  typed(place: string): string {
    const edit = this.changes.edits.find((one) => one.place === place);
    if (edit) return edit.text;
    const number = givenNumber(this.given, place);
    if (isError(number)) return "";
    const den = number.exact?.ratio?.den;
    const isShort = this.given.isDecimal && typeof den === "number" && 10000 % den === 0;
    return isShort ? String(number.value) : (number.exact?.text() ?? String(number.value));
  }

  label(place: string): string {
    const keys = placeKeys(place);
    return isError(keys) ? place : placeLabel(this.given, keys);
  }

  say(text: string): void {
    this.said = text;
  }

  /** The address of exactly what is in view. */
  link(): string {
    return `${location.href.replace(/#.*$/s, "")}#worksheet/${encodeWorksheet(this.state)}`;
  }

  /** From a number inside the explanation it goes one deeper; from elsewhere it starts again. */
  explain(name: string, from: Element, isByKeyboard: boolean): void {
    const short = name.slice(name.indexOf(":") + 1);
    const isInside = from.closest("[data-explanation]") !== null;
    if (!isInside) this.origin = from;
    const { trail } = this;
    if (trail.at(-1) === short) return;
    const at = isInside ? trail.indexOf(short) : -1;
    const next = isInside ? (at < 0 ? [...trail, short] : trail.slice(0, at + 1)) : [short];
    this.wantsFocus = isByKeyboard || isInside;
    this.go({ trail: next }, "push");
  }

  /** Back to the number at a place of the trail. */
  backTo(at: number): void {
    this.wantsFocus = true;
    this.go({ trail: this.trail.slice(0, at + 1) }, "push");
  }

  closeExplanation(): void {
    this.go({ trail: [] });
    const { origin } = this;
    if (origin instanceof HTMLElement || origin instanceof SVGElement) origin.focus();
    this.origin = null;
  }
}
