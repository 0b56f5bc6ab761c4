/** Which instances have the beginning of a prompt in their cache, as keyed hashes, never as text. */
import { hash, randomBytes } from 'node:crypto'
import { child, listOf, textOf, type Fields } from '../language/json.js'
import type { RouteQuery } from '../service.js'

/** Limits on the hashes per instance, and on the instances. */
export const HASHES_MAX = 64
export const INSTANCES_MAX = 256
/** Limits on hashing: characters of a piece, whole pieces of a text, and pieces of a prompt. */
const PIECE_CHARS = 1024
const TEXT_PIECES = 8
export const PIECES_MAX = 32
/** Characters of a hash: 8 bytes in base64url. */
const HASH_CHARS = 11

/** A request's hashes: of its prefixes, shortest first, of its session, and those that its instance keeps. */
export interface Lead {
  readonly cuts: readonly string[]
  readonly session: string | undefined
  readonly kept: readonly string[]
}

export class PrefixTable {
  #key = randomBytes(16).toString('hex')
  /** By instance id; both levels have the least recently used first. */
  readonly #held = new Map<string, Set<string>>()

  get key (): string { return this.#key }

  /** Adopts the lowest key that any node sends, so that all nodes soon share one that is never stored. */
  adopt (key: string): void { if (key < this.#key) this.#key = key }

  lead ({ payload = {}, session: id }: Pick<RouteQuery, 'payload' | 'session'>): Lead {
    const cuts = prefixHashes(this.#key, payload)
    const session = id && shorten(digest(`${this.#key}session ${id.slice(0, PIECE_CHARS)}`))
    // The end leads the next turn, the others lead prompts with the same beginning.
    const kept = cuts.filter((_, i) => i === cuts.length - 1 || (i + 1) % TEXT_PIECES === 0)
    return { cuts, session, kept: session === undefined ? kept : [...kept, session] }
  }

  /** Rates an instance for a request: by the longest common prefix, then by the session; 0 for neither. */
  rate (instanceId: string, { cuts, session }: Lead): number {
    const held = this.#held.get(instanceId) ?? new Set<string>()
    const prefix = cuts.findLastIndex((cut) => held.has(cut)) + 1
    return 2 * prefix + Number(session !== undefined && held.has(session))
  }

  remember (instanceId: string, hashes: readonly string[]): void {
    if (hashes.length === 0) return
    const held = this.#held.get(instanceId) ?? new Set()
    this.#held.delete(instanceId)
    this.#held.set(instanceId, held)
    for (const one of hashes) {
      held.delete(one)
      held.add(one)
    }
    dropOldest(held, HASHES_MAX)
    dropOldest(this.#held, INSTANCES_MAX)
  }

  /** The hashes of an instance, oldest first. */
  hashesOf (instanceId: string): string[] { return [...this.#held.get(instanceId) ?? []] }
}

function dropOldest (all: Set<string> | Map<string, unknown>, most: number): void {
  for (const key of all.keys()) {
    if (all.size <= most) return
    all.delete(key)
  }
}

/** Pattern of joined hashes, which other nodes send. */
export const JOINED_HASHES = `^(?:[A-Za-z0-9_-]{${HASH_CHARS}}){0,${HASHES_MAX}}$`
const JOINED = new RegExp(JOINED_HASHES)
const SINGLE = new RegExp(`.{${HASH_CHARS}}`, 'g')

/** The single hashes; none if they are malformed or too many. */
export const splitHashes = (joined: string): string[] =>
  JOINED.test(joined) ? joined.match(SINGLE) ?? [] : []

const digest = (text: string): string => hash('sha256', text, 'base64url')
const shorten = (hashed: string): string => hashed.slice(0, HASH_CHARS)

/** A hash of each prefix that ends with a message or with a KiB of one, shortest first. */
export function prefixHashes (key: string, payload: Fields): string[] {
  const cuts: string[] = []
  let last = ''
  for (const piece of piecesOf(payload)) {
    if (cuts.length === PIECES_MAX) break
    last = digest(key + last + piece)
    cuts.push(shorten(last))
  }
  return cuts
}

/** Pieces of a prompt. Skips the middle of a long text: its beginning, length and end identify it. */
function * piecesOf (payload: Fields): Generator<string> {
  for (const text of textsOf(payload)) {
    const most = TEXT_PIECES * PIECE_CHARS
    for (let at = 0; at < Math.min(text.length, most); at += PIECE_CHARS) {
      yield text.slice(at, at + PIECE_CHARS)
    }
    if (text.length > most) yield `${text.length} ${text.slice(-PIECE_CHARS)}`
  }
}

/** The texts of a prompt, in the order of most templates. */
function * textsOf ({ tools, messages, prompt }: Fields): Generator<string> {
  // Without the parameters of tools, which take long to serialize and rarely change alone.
  yield listOf(tools).map((tool) => Object.values(child(tool, 'function')).map(textOf).join(' ')).join()
  for (const { role, content, tool_calls: calls } of listOf(messages)) {
    const parts = listOf(content).map((part) => part['text'] ?? child(part, 'image_url')['url'])
    yield [role, content, ...parts].map(textOf).join(' ') + (calls === undefined ? '' : JSON.stringify(calls))
  }
  // A plain prompt may grow at its end, so its last part of a KiB does not count.
  const text = Array.isArray(prompt) ? prompt.slice(0, PIECE_CHARS).join() : textOf(prompt)
  yield text.slice(0, text.length - text.length % PIECE_CHARS)
}
