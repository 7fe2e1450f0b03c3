/** The day of a time that a record has, as a reader's calendar says it; "" where it has none. */
export function dayText(when: unknown): string {
  const time = typeof when === "string" ? new Date(when) : null;
  if (!time || Number.isNaN(time.getTime())) return "";
  return time.toLocaleDateString("en", { day: "numeric", month: "short", year: "numeric" });
}
