/** Several streams as one. */

/**
 * The items of all streams as they come, each one item ahead of the reader. When the reader lets go, or one
 * of them fails, all are let go.
 */
export async function * merged<T> (streams: readonly AsyncGenerator<T>[]): AsyncGenerator<T> {
  const [only] = streams
  if (streams.length === 1 && only !== undefined) {
    yield * only
    return
  }
  const next = async (stream: AsyncGenerator<T>) => ({ stream, result: await stream.next() })
  const waiting = new Map(streams.map((stream) => [stream, next(stream)]))
  try {
    while (waiting.size > 0) {
      const { stream, result } = await Promise.race(waiting.values())
      if (result.done === true) waiting.delete(stream)
      else {
        waiting.set(stream, next(stream))
        yield result.value
      }
    }
  } finally {
    for (const [stream, pending] of waiting) {
      pending.catch(() => {})
      stream.return(undefined).catch(() => {})
    }
  }
}
