// What the model calls of a session came to so far, as `GET /sessions/{id}` counts them.

const NOTHING = { calls: 0, failed: 0, promptTokens: 0, completionTokens: 0, cachedTokens: null, estimated: 0 };

export const usageSoFar = {
  initial: () => NOTHING,
  apply(usage, { type, data }) {
    // What a fork shares with its origin is counted there.
    if (type === "session_created") return NOTHING;
    if (type === "model_called") return { ...usage, calls: usage.calls + 1 };
    if (type !== "model_replied" && type !== "model_call_failed") return usage;
    const counted = data.usage ?? {};
    const instead = data.estimate ?? {};
    const cached = counted.cached_tokens;
    return {
      calls: usage.calls,
      failed: usage.failed + (type === "model_call_failed" ? 1 : 0),
      promptTokens: usage.promptTokens + (counted.prompt_tokens ?? instead.prompt_tokens ?? 0),
      completionTokens: usage.completionTokens + (counted.completion_tokens ?? instead.completion_tokens ?? 0),
      cachedTokens: cached === undefined || cached === null ? usage.cachedTokens : (usage.cachedTokens ?? 0) + cached,
      estimated: usage.estimated + (isCounted(counted) ? 0 : 1),
    };
  },
};

function isCounted(usage) {
  return (usage.prompt_tokens ?? null) !== null && (usage.completion_tokens ?? null) !== null;
}
