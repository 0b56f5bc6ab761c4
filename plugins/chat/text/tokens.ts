import { badModel } from './errors.js'
import { isObject } from '../json.js'
import type { Json } from './files.js'

/** Ids above this are not a vocabulary any more (the largest public ones have 262,144). */
const MAX_IDS = 2_000_000

/**
 * The bytes every token stands for, in one flat array. Holes (ids without a token) have no bytes and are
 * never chosen. `strip`: how many leading spaces the decoder removes from a whole text.
 */
export interface TokenTable {
  size: number
  bytes: Uint8Array
  /** `offsets[id]` to `offsets[id + 1]` are the bytes of the token. */
  offsets: Uint32Array
  special: ReadonlySet<number>
  known: Uint8Array
  /** Text of the added tokens (special or not) to their id. */
  added: ReadonlyMap<string, number>
  strip: number
}

/** One token's way to bytes, and what happens at the start of the text. */
interface ByteRule { toBytes (token: string, added: boolean): Uint8Array, strip: number }

interface Entry { token: string, added: boolean, special: boolean }

/**
 * The table of a tokenizer.json, or null where its decoder is none of the byte-exact kinds (byte-level BPE,
 * SentencePiece-like with or without byte fallback); such a tokenizer can encode but not stream.
 */
export function tokenTable (tokenizer: Json): TokenTable | null {
  const rule = byteRule(tokenizer['decoder'])
  if (rule === null) return null
  const entries = readEntries(tokenizer)
  const parts: Uint8Array[] = []
  const offsets = new Uint32Array(entries.length + 1)
  const known = new Uint8Array(entries.length)
  const special = new Set<number>()
  const added = new Map<string, number>()
  for (let id = 0; id < entries.length; id++) {
    const entry = entries[id]
    const bytes = entry === undefined ? new Uint8Array(0) : rule.toBytes(entry.token, entry.added)
    parts.push(bytes)
    offsets[id + 1] = (offsets[id] ?? 0) + bytes.length
    if (entry === undefined) continue
    known[id] = 1
    if (entry.special) special.add(id)
    if (entry.added) added.set(entry.token, id)
  }
  return {
    size: entries.length, bytes: Buffer.concat(parts), offsets, special, known, added, strip: rule.strip
  }
}

/** The bytes of one token; none for ids outside the table. */
export function bytesOf (table: TokenTable, id: number): Uint8Array {
  if (id < 0 || id >= table.size) return table.bytes.subarray(0, 0)
  return table.bytes.subarray(table.offsets[id], table.offsets[id + 1])
}

/**
 * Takes out added tokens that the model has no row for; throws EngineError `model_invalid` when the
 * vocabulary itself does not fit.
 */
export function fitVocabulary (tokenizer: Json, rows: number): Json {
  const model = isObject(tokenizer['model']) ? tokenizer['model'] : {}
  const highest = highestId(model['vocab'])
  const added = addedTokens(tokenizer)
  const addedIds = new Set(added.map((t) => t['id']))
  if (highest >= rows && !addedIds.has(highest)) {
    throw badModel(`tokenizer.json does not fit the model: its vocabulary goes up to id ${highest}, the ` +
      `model knows ${rows} tokens. The files are of different models; stage the model again`)
  }
  return { ...tokenizer, added_tokens: added.filter((t) => (t['id'] as number) < rows) }
}

/** Token and id of every entry, added tokens last so that they win. */
function readEntries (tokenizer: Json): (Entry | undefined)[] {
  const entries: (Entry | undefined)[] = []
  const put = (id: unknown, token: unknown, added: boolean, special: boolean): void => {
    if (typeof token !== 'string' || typeof id !== 'number' || !Number.isInteger(id) || id < 0 ||
      id > MAX_IDS) {
      throw badModel(`tokenizer.json has a token ${JSON.stringify(token)} with the id ${JSON.stringify(id)}`)
    }
    while (entries.length < id) entries.push(undefined)
    entries[id] = { token, added, special }
  }
  const vocab = isObject(tokenizer['model']) ? tokenizer['model']['vocab'] : undefined
  if (Array.isArray(vocab)) {
    vocab.forEach((row, id) => put(id, Array.isArray(row) ? row[0] : row, false, false))
  } else if (isObject(vocab)) for (const token of Object.keys(vocab)) put(vocab[token], token, false, false)
  else throw badModel('tokenizer.json has no model.vocab')
  for (const t of addedTokens(tokenizer)) put(t['id'], t['content'], true, t['special'] === true)
  return entries
}

function addedTokens (tokenizer: Json): Json[] {
  const list = tokenizer['added_tokens'] ?? []
  if (!Array.isArray(list) || !list.every(isObject)) {
    throw badModel('added_tokens of tokenizer.json is not a list')
  }
  return list
}

function highestId (vocab: unknown): number {
  if (Array.isArray(vocab)) return vocab.length - 1
  if (!isObject(vocab)) return -1
  let highest = -1
  for (const token of Object.keys(vocab)) highest = Math.max(highest, vocab[token] as number)
  return highest
}

const encoder = new TextEncoder()

/** How a decoder of tokenizer.json turns tokens into bytes; null where that is not defined token by token. */
function byteRule (decoder: unknown): ByteRule | null {
  if (!isObject(decoder)) return null
  const steps = decoder['type'] === 'Sequence' && Array.isArray(decoder['decoders'])
    ? decoder['decoders'] as unknown[]
    : [decoder]
  if (!steps.every(isObject)) return null
  if (steps.length === 1 && steps[0]?.['type'] === 'ByteLevel') return { toBytes: byteLevel, strip: 0 }
  return pieceRule(steps)
}

/** SentencePiece-like chains: replacements, byte fallback, then (after Fuse) a strip of leading spaces. */
function pieceRule (steps: readonly Json[]): ByteRule | null {
  const replacements: [string, string][] = []
  let fallback = false
  let strip = 0
  for (const step of steps) {
    if (step['type'] === 'Metaspace') {
      replacements.push([String(step['replacement'] ?? '▁'), ' '])
      if (step['prepend_scheme'] !== 'never' && step['add_prefix_space'] !== false) strip = 1
    } else if (step['type'] === 'Replace') {
      const pattern = isObject(step['pattern']) ? step['pattern']['String'] : undefined
      if (typeof pattern !== 'string') return null
      replacements.push([pattern, String(step['content'] ?? '')])
    } else if (step['type'] === 'ByteFallback') {
      fallback = true
    } else if (step['type'] === 'Strip') {
      if (step['content'] !== ' ' || Number(step['stop'] ?? 0) !== 0) return null
      strip = Number(step['start'] ?? 0)
    } else if (step['type'] !== 'Fuse') {
      return null
    }
  }
  return { strip, toBytes: (token) => pieceBytes(token, replacements, fallback) }
}

function pieceBytes (token: string, replacements: readonly [string, string][],
  fallback: boolean): Uint8Array {
  const byte = fallback ? /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1] : undefined
  if (byte !== undefined) return Uint8Array.of(parseInt(byte, 16))
  return encoder.encode(replacements.reduce((text, [from, to]) => text.replaceAll(from, to), token))
}

/** Byte-level BPE writes every byte as one visible character (the table of GPT-2's encoder.py). */
const byteOfCharacter = ((): Map<string, number> => {
  const map = new Map<string, number>()
  const visible = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) ||
    (b >= 174 && b <= 255)
  let next = 256
  for (let b = 0; b < 256; b++) map.set(String.fromCodePoint(visible(b) ? b : next++), b)
  return map
})()

function byteLevel (token: string, added: boolean): Uint8Array {
  const bytes = [...token].map((c) => byteOfCharacter.get(c))
  if (added || bytes.includes(undefined)) return encoder.encode(token)
  return Uint8Array.from(bytes as number[])
}
