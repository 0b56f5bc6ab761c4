/**
 * Merges streams in the order in which their items arrive. At most `most` streams are open at a time; the
 * remaining ones follow in order. Each stream is read one item ahead. If the reader stops or a stream fails,
 * all open streams are closed.
 */
export function merged<T> (streams: readonly AsyncGenerator<T>[], most = Infinity): AsyncGenerator<T> {
  return streams.length === 1 ? streams[0]! : interleaved(streams, most)
}

async function * interleaved<T> (streams: readonly AsyncGenerator<T>[], most: number): AsyncGenerator<T> {
  const next = async (stream: AsyncGenerator<T>) => ({ stream, result: await stream.next() })
  const later = [...streams]
  const open = new Map(later.splice(0, most).map((stream) => [stream, next(stream)]))
  try {
    while (open.size > 0) {
      const { stream, result } = await Promise.race(open.values())
      if (result.done !== true) {
        open.set(stream, next(stream))
        yield result.value
        continue
      }
      open.delete(stream)
      for (const following of later.splice(0, 1)) open.set(following, next(following))
    }
  } finally {
    for (const [stream, pending] of open) {
      pending.catch(() => {})
      stream.return(undefined).catch(() => {})
    }
  }
}
