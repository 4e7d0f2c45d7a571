// Reads a JSON list of PromQL expressions, and writes for each where Prometheus' own grammar breaks off,
// or null, and the metrics that it names.
import { parser } from "@prometheus-io/lezer-promql";
import { readFileSync } from "node:fs";

const found = JSON.parse(readFileSync(0, "utf8")).map((text) => {
  let brokenAt = null;
  const metrics = [];
  parser.parse(text).iterate({
    enter(node) {
      if (node.type.isError) brokenAt ??= node.from;
      if (node.name === "Identifier" && node.node.parent.name === "VectorSelector") {
        metrics.push(text.slice(node.from, node.to));
      }
    },
  });
  return { brokenAt, metrics };
});
process.stdout.write(JSON.stringify(found));
