const written = new WeakMap<object, string>()

/** Marks a value that never changes: it is serialised once, not for every answer. */
export function cacheJson<T extends object> (value: T): T {
  written.set(value, JSON.stringify(value))
  return value
}

/** The JSON text of an answer's body; `null` for none. Throws for values that are not JSON. */
export function jsonText (body: unknown): string {
  const text = typeof body === 'object' && body !== null ? written.get(body) : undefined
  return text ?? JSON.stringify(body ?? null)
}
