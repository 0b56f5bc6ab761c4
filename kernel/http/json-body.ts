import { isUtf8 } from 'node:buffer'

/** Deeper values are refused: what walks them, or writes them as JSON again, has a stack that ends. */
const MOST_LEVELS = 500

/** A surrogate without its other half: whole pairs are one character to this flag. */
const HALF = /\p{Surrogate}/u

/** What makes a JSON text mean different things to different readers: where it is, and what it is. */
export interface Ambiguity { path: string, message: string }

/** Whether bytes are text at all; what is no UTF-8 would be read as something else than was sent. */
export const isText = (bytes: Uint8Array): boolean => isUtf8(bytes)

/**
 * What is wrong with a valid JSON text and the value that JSON.parse made of it: a key that stands twice in
 * one object, half of a surrogate pair, which no UTF-8 can carry on, or too many levels.
 * Null when nothing is.
 */
export function ambiguity (text: string, value: unknown): Ambiguity | null {
  const halves = /\\u[dD][89a-fA-F]/.test(text)
  let keys = 0
  const open: [path: string, value: unknown, level: number][] = [['', value, 0]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [path, inner, level] = next
    if (level > MOST_LEVELS) return { path: '', message: `is nested deeper than ${MOST_LEVELS} levels` }
    if (typeof inner === 'string') {
      if (halves && HALF.test(inner)) return { path, message: 'has half of a surrogate pair' }
    } else if (typeof inner === 'object' && inner !== null) {
      for (const [key, child] of Object.entries(inner)) {
        if (!Array.isArray(inner)) keys++
        if (typeof child === 'object' || halves) {
          open.push([path === '' ? key : `${path}.${key}`, child, level + 1])
        }
      }
      const bad = halves && Object.keys(inner).some((key) => HALF.test(key))
      if (bad) return { path, message: 'has a key with half of a surrogate pair' }
    }
  }
  return keys === countKeys(text) ? null : { path: repeatedKey(text), message: 'stands twice in one object' }
}

/** Calls `visit` for every string of a valid JSON text, and for every brace outside of them. */
function scan (text: string, visit: (what: '{' | '}' | 'key', at: number, end: number) => void): void {
  const mark = /["{}]/g
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    const at = found.index
    if (found[0] !== '"') { visit(found[0] as '{' | '}', at, at); continue }
    let end = text.indexOf('"', at + 1)
    while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
    mark.lastIndex = end + 1
    let after = end + 1
    while (/\s/.test(text[after] ?? '')) after++
    if (text[after] === ':') visit('key', at, end)
  }
}

function isEscaped (text: string, at: number): boolean {
  let slashes = 0
  while (text[at - 1 - slashes] === '\\') slashes++
  return slashes % 2 === 1
}

function countKeys (text: string): number {
  let count = 0
  scan(text, (what) => { if (what === 'key') count++ })
  return count
}

/** The first key that stands twice in one object. */
function repeatedKey (text: string): string {
  const objects: Set<string>[] = []
  let twice: string | undefined
  scan(text, (what, at, end) => {
    if (what === '{') objects.push(new Set())
    else if (what === '}') objects.pop()
    else {
      const key = JSON.parse(text.slice(at, end + 1)) as string
      if (objects.at(-1)!.has(key)) twice ??= key
      objects.at(-1)!.add(key)
    }
  })
  return twice ?? ''
}
