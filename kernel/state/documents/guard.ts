import * as Y from 'yjs'
import { checkKey, checkValue } from './values.js'

export const ROOT = 'entries'

export interface Pair { readonly key: string, readonly val: unknown }

export interface GuardOptions {
  readonly client: number
  /** The writer's clock up to which this node has the document. */
  readonly known: number
  /** Maximum size of an update in bytes; 384 KiB when absent. */
  readonly maxBytes?: number
}

/** `end`: clock of the document after the update. `gap`: the update continues a part that this node lacks. */
export type UpdateCheck = { readonly end: number } | { readonly refused: string, readonly gap: boolean }

/** Maximum size of an update in bytes: what writers may send, plus space for the ids of deletions. */
export const MAX_UPDATE_BYTES = 384 * 1024
const MAX_STRUCTS = 20_000
/** Maximum number of deleted entries in one struct. */
const MAX_DELETED = 2 ** 31

const refuse = (refused: string, gap = false): UpdateCheck => ({ refused, gap })

/**
 * Checks an update before it is applied. A writer only appends to one list and deletes from it, so the clock
 * of a struct is its position; any other update is refused. Never throws.
 */
export function checkUpdate (update: Uint8Array, options: GuardOptions): UpdateCheck {
  const { maxBytes = MAX_UPDATE_BYTES } = options
  if (update.length > maxBytes) return refuse(`${update.length} bytes, at most ${maxBytes}`)
  let decoded: ReturnType<typeof Y.decodeUpdate>
  try {
    decoded = Y.decodeUpdate(update)
  } catch (error) {
    return refuse(`not an update: ${(error as Error).message}`)
  }
  return checkDecoded(decoded, options)
}

function checkDecoded (
  { structs, ds }: ReturnType<typeof Y.decodeUpdate>, { client, known }: GuardOptions
): UpdateCheck {
  if (structs.length > MAX_STRUCTS) return refuse(`${structs.length} structs, at most ${MAX_STRUCTS}`)
  let clock = structs[0]?.id.clock ?? known
  for (const struct of structs) {
    if (struct.id.client !== client) return refuse(`a struct of client ${struct.id.client}, not ${client}`)
    if (struct.id.clock !== clock) return refuse(`a hole in the clocks at ${clock}`)
    const wrong = checkStruct(struct, client)
    if (wrong !== null) return refuse(wrong)
    clock += struct.length
  }
  if (!Number.isSafeInteger(clock)) return refuse('a clock beyond all numbers')
  const end = Math.max(known, clock)
  for (const [of, ranges] of ds.clients) {
    if (of !== client) return refuse(`a deletion of client ${of}, not ${client}`)
    const beyond = ranges.find((range) => range.clock + range.len > end)
    if (beyond !== undefined) {
      return refuse(`a deletion up to ${beyond.clock + beyond.len}, the clock is ${end}`)
    }
  }
  const first = structs[0]?.id.clock ?? known
  return first > known ? refuse(`starts at ${first}, known is ${known}`, true) : { end }
}

function checkStruct (struct: Y.Item | Y.GC | Y.Skip, client: number): string | null {
  if (!(struct instanceof Y.Item)) return 'a struct that is not an item'
  const { id, origin, rightOrigin, parent, parentSub, content } = struct
  const first = id.clock === 0
  const placed = first ? origin === null : origin?.client === client && origin.clock === id.clock - 1
  if (!placed || rightOrigin !== null) return `an item out of place at ${id.clock}`
  if (parent as unknown !== (first ? ROOT : null) || parentSub !== null) return 'an item outside the list'
  if (content instanceof Y.ContentDeleted) {
    const { len } = content
    return len > 0 && len <= MAX_DELETED ? null : `${len} deleted entries in one struct`
  }
  if (!(content instanceof Y.ContentAny) || content.arr.length === 0) return 'an item without entries'
  for (const pair of content.arr as unknown[]) {
    const wrong = checkPair(pair)
    if (wrong !== null) return wrong
  }
  return null
}

function checkPair (pair: unknown): string | null {
  if (typeof pair !== 'object' || pair === null || Object.getPrototypeOf(pair) !== Object.prototype) {
    return 'an entry that is not an object'
  }
  const { key, val } = pair as Pair
  if (Object.keys(pair).length !== 2) return 'an entry with other fields than key and val'
  const wrong = checkKey(key)
  if (wrong !== null) return `a key that ${wrong}`
  const unfit = checkValue(val)
  return unfit === null ? null : `a value that ${unfit}`
}
