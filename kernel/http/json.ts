const written = new WeakMap<object, string>()

/** Declares that a value will never change: it is written as JSON once, not for every answer. */
export function cacheJson<T extends object> (value: T): T {
  written.set(value, JSON.stringify(value))
  return value
}

/** The JSON text of an answer's body; `null` for none. Throws on what is not JSON. */
export function jsonText (body: unknown): string {
  const text = typeof body === 'object' && body !== null ? written.get(body) : undefined
  return text ?? JSON.stringify(body ?? null)
}
