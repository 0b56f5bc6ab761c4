import { bytesOf } from '../tokens.js'
import type { TokenTable } from '../tokens.js'

/**
 * Longer tokens are never chosen under a grammar (none of the public vocabularies has longer ones but runs
 * of blanks).
 */
const MAX_TOKEN_BYTES = 256

/**
 * The tokens of a vocabulary by their bytes, in preorder: the children of node i begin at i + 1, and
 * `end[i]` is the first node after its branch. Tokens of node i are `ids[first[i]]` to `ids[first[i + 1] -
 * 1]`.
 */
export interface Trie {
  byte: Uint8Array
  end: Int32Array
  first: Int32Array
  ids: Int32Array
  /** Bytes of the longest token. */
  longest: number
  /** Which bytes are tokens of their own. */
  single: ReadonlySet<number>
  /** Not every character can be written: only ASCII may be asked for. */
  ascii: boolean
}

/** First and further bytes of characters outside ASCII. */
const UTF8_BYTES = Array.from({ length: 0xf5 - 0x80 }, (_, i) => 0x80 + i).filter((b) => b !== 0xc0 &&
  b !== 0xc1)

/**
 * The trie of all tokens but special ones. Where not all bytes of UTF-8 have tokens of their own,
 * tokens that end inside a character are left out, since nothing might complete them.
 */
export function buildTrie (table: TokenTable, without: ReadonlySet<number>): Trie {
  const single = new Set<number>()
  const tokens: { text: string, id: number }[] = []
  for (let id = 0; id < table.size; id++) {
    if (table.special.has(id) || without.has(id)) continue
    const bytes = bytesOf(table, id)
    if (bytes.length === 0 || bytes.length > MAX_TOKEN_BYTES) continue
    if (bytes.length === 1) single.add(bytes[0] as number)
    // One character per byte: sorts as the bytes do.
    tokens.push({ text: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1'), id })
  }
  const ascii = !UTF8_BYTES.every((b) => single.has(b))
  const usable = ascii ? tokens.filter((t) => !Buffer.from(t.text, 'latin1').toString().includes('\ufffd'))
    : tokens
  usable.sort((a, b) => a.text < b.text ? -1 : a.text > b.text ? 1 : a.id - b.id)
  return { ...layOut(usable), single, ascii }
}

function layOut (tokens: readonly { text: string, id: number }[]): Omit<Trie, 'single' | 'ascii'> {
  const byte: number[] = []
  const end: number[] = []
  const first: number[] = []
  const path: number[] = []
  let before = ''
  let longest = 1
  tokens.forEach(({ text }, index) => {
    let same = 0
    while (same < before.length && before.charCodeAt(same) === text.charCodeAt(same)) same++
    while (path.length > same) end[path.pop() as number] = byte.length
    for (let i = same; i < text.length; i++) {
      path.push(byte.length)
      byte.push(text.charCodeAt(i))
      end.push(0)
      first.push(index)
    }
    longest = Math.max(longest, text.length)
    before = text
  })
  while (path.length > 0) end[path.pop() as number] = byte.length
  first.push(tokens.length)
  return {
    byte: Uint8Array.from(byte), end: Int32Array.from(end), first: Int32Array.from(first), longest,
    ids: Int32Array.from(tokens, (t) => t.id)
  }
}
