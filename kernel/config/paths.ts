import { isObject } from '../api/schema.js'

export type Path = readonly string[]

/** A map without a prototype, so that no key from a file can reach Object.prototype. */
export type Tree = Record<string, unknown>

const forbidden = new Set(['__proto__', 'constructor', 'prototype'])

/** True for keys such as `__proto__` that name parts of JavaScript's object model; svc refuses them. */
export function isForbiddenKey (key: string): boolean { return forbidden.has(key) }

export function emptyTree (): Tree { return Object.create(null) as Tree }

export const isTree: (value: unknown) => value is Tree = isObject

/** Copies plain data into maps without a prototype; skips forbidden keys and reports them to `refuse`. */
export function cleanCopy (value: unknown, refuse: (path: Path) => void = () => {}, at: Path = []): unknown {
  if (Array.isArray(value)) return value.map((item, index) => cleanCopy(item, refuse, [...at, String(index)]))
  if (!isTree(value)) return value
  const copy = emptyTree()
  for (const key of Object.keys(value)) {
    const path = [...at, key]
    if (isForbiddenKey(key)) refuse(path)
    else copy[key] = cleanCopy(value[key], refuse, path)
  }
  return copy
}

/** Freezes plain data at every depth and returns it. */
export function deepFreeze<T> (value: T): T {
  if (typeof value === 'object' && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner)
    Object.freeze(value)
  }
  return value
}

/** Reads the value at a path; ignores inherited properties. */
export function getIn (root: unknown, path: Path): unknown {
  let value = root
  for (const key of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = (value as Tree)[key]
  }
  return value
}

/** Sets a value at a path, creating maps. False, without a change, if a value on the way is not a map. */
export function setIn (root: Tree, path: Path, value: unknown): boolean {
  let map = root
  for (const key of path.slice(0, -1)) {
    map[key] ??= emptyTree()
    const next = map[key]
    if (!isTree(next)) return false
    map = next
  }
  const last = path.at(-1)
  if (last === undefined || path.some(isForbiddenKey)) return false
  map[last] = value
  return true
}

export function deleteIn (root: Tree, path: Path): void {
  const parent = getIn(root, path.slice(0, -1))
  const last = path.at(-1)
  if (isTree(parent) && last !== undefined) delete parent[last]
}

export function isUnder (path: Path, prefix: Path): boolean {
  return path.length >= prefix.length && prefix.every((key, index) => path[index] === key)
}

export function pathKey (path: Path): string { return JSON.stringify(path) }

/** Formats a path for people: `plugins.runners.threads`, `api.allowed_hosts[0]`, `node_overrides."a.b"`. */
export function formatPath (path: Path): string {
  let text = ''
  for (const key of path) {
    if (/^\d+$/.test(key) && text !== '') text += `[${key}]`
    else text += (text === '' ? '' : '.') + (/^[\w-]+$/.test(key) ? key : printable(JSON.stringify(key)))
  }
  return text
}

/** Parses the output of `formatPath`. Null if the text is not a path. */
export function parsePath (text: string): Path | null {
  const path: string[] = []
  const token = /\.?(?:([^.[\]"\s]+)|("(?:[^"\\]|\\.)*")|\[(\d+)\])/y
  while (token.lastIndex < text.length) {
    const dotted = text[token.lastIndex] === '.'
    const match = token.exec(text)
    const key = match === null ? undefined : match[1] ?? match[3] ?? unquote(match[2])
    if (match === null || key === undefined || key === '') return null
    if (dotted === (path.length === 0 || match[3] !== undefined)) return null
    path.push(key)
  }
  return path.length === 0 ? null : path
}

function unquote (text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  try { return String(JSON.parse(text)) } catch { return undefined }
}

/** Control characters, line separators and marks that change the writing direction. */
export const unsafe = /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** Escapes characters that could break or hide a line of output. */
export function printable (text: string): string {
  const hex = (c: string): string => c.charCodeAt(0).toString(16).padStart(4, '0')
  return text.replace(unsafe, (c) => `\\u${hex(c)}`)
}
