const written = new WeakMap<object, string>()

/** Marks a value that never changes, so that it is serialised once instead of for every answer. */
export function cacheJson<T extends object> (value: T): T {
  written.set(value, JSON.stringify(value))
  return value
}

/** JSON text of a response body; `null` for no body. Throws for values that are not JSON. */
export function jsonText (body: unknown): string {
  const text = typeof body === 'object' && body !== null ? written.get(body) : undefined
  return text ?? JSON.stringify(body ?? null)
}
