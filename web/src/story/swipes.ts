/** A finger drawn across the stage. */

const FAR = 50;

/** An attachment: left is forward, right is backward; a drawing that scrolls sideways keeps its own. */
export function swipes(forward: () => void, backward: () => void) {
  return (box: HTMLElement) => {
    let start: Touch | null = null;
    const begin = (event: TouchEvent) => {
      const isOwn = event.target instanceof Element && event.target.closest(".scroll.wide");
      start = event.touches.length === 1 && !isOwn ? (event.touches[0] ?? null) : null;
    };
    const end = (event: TouchEvent) => {
      const last = event.changedTouches[0];
      if (!start || !last) return;
      const [across, down] = [last.clientX - start.clientX, last.clientY - start.clientY];
      start = null;
      if (Math.abs(across) < FAR || Math.abs(across) < 2 * Math.abs(down)) return;
      if (across < 0) forward();
      else backward();
    };
    box.addEventListener("touchstart", begin, { passive: true });
    box.addEventListener("touchend", end);
    return () => {
      box.removeEventListener("touchstart", begin);
      box.removeEventListener("touchend", end);
    };
  };
}
