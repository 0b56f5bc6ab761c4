/** Limits the time that JSON bodies may take on the main thread. */

/** Limits on lists, objects and keys together, and on values; parsing and checking this many takes 0.1 s. */
const MOST_PARTS = 32_768
const MOST_VALUES = 131_072
/** Smaller bodies are handled immediately, several per turn of the event loop. */
const SMALL_BYTES = 16 * 1024

const [QUOTE, COLON, LIST, OBJECT, COMMA, BACKSLASH] = [...'":[{,\\'].map((char) => char.charCodeAt(0))

/** Counts the parts of a JSON string; `excess` says why it is too complex, as the end of a sentence. */
export function countParts (body: Buffer): { keys: number, excess: string | null } {
  let [keys, nodes, values] = [0, 0, 0]
  for (let at = 0; at < body.length; at++) {
    const char = body[at]
    if (char === QUOTE) at = endOfText(body, at)
    else if (char === COLON) keys++
    else if (char === LIST || char === OBJECT) nodes++
    else if (char === COMMA) values++
  }
  const excess = keys + nodes > MOST_PARTS
    ? `has more than ${MOST_PARTS} lists, objects and keys`
    : values > MOST_VALUES ? `has more than ${MOST_VALUES} values` : null
  return { keys, excess }
}

function endOfText (body: Buffer, from: number): number {
  for (let at = body.indexOf(QUOTE!, from + 1); at >= 0; at = body.indexOf(QUOTE!, at + 1)) {
    let slashes = 0
    while (body[at - 1 - slashes] === BACKSLASH) slashes++
    if (slashes % 2 === 0) return at
  }
  return body.length
}

const waiting: (() => void)[] = []

/**
 * Waits until a large body may be parsed: one in each turn of the event loop; otherwise libuv would deliver
 * all bodies that end simultaneously before any timers run, including heartbeats.
 */
export async function turnFor (body: Buffer): Promise<void> {
  if (body.byteLength < SMALL_BYTES) return
  await new Promise<void>((resolve) => { if (waiting.push(resolve) === 1) setImmediate(nextTurn) })
}

function nextTurn (): void {
  waiting.shift()!()
  if (waiting.length > 0) setImmediate(nextTurn)
}
