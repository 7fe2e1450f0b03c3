import { svelte } from "@sveltejs/vite-plugin-svelte";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/**
 * Load the page as one classic deferred script.
 *
 * A page opened from disk may load neither module scripts nor anything with a `crossorigin`
 * attribute, so both are taken out of the built HTML.
 */
function classicScript(): Plugin {
  return {
    name: "manyheads-classic-script",
    enforce: "post",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler: (html) =>
        html
          .replace(/<script type="module"(?: crossorigin)? src="/g, '<script defer src="')
          .replace(/<link rel="stylesheet" crossorigin href="/g, '<link rel="stylesheet" href="'),
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [svelte(), classicScript()],
  json: { stringify: true },
  build: {
    target: "es2022",
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    outDir: "../src/manyheads/web/static",
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false, // one file: an inlined style element would break the content policy
    reportCompressedSize: true,
    chunkSizeWarningLimit: 1000, // kB; a test holds the compressed page to 300 kB
    rolldownOptions: {
      output: {
        format: "iife",
        entryFileNames: "assets/page.js",
        assetFileNames: "assets/page[extname]",
      },
    },
  },
  test: { include: ["tests/**/*.test.ts"] },
});
