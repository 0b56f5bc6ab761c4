import { isDeepStrictEqual } from 'node:util'
import { isMap, isScalar, parseDocument, stringify } from 'yaml'
import type { Document, Scalar, YAMLMap } from 'yaml'
import { cleanCopy, deleteIn, isTree, parsePath, setIn } from './paths.js'
import type { Path, Tree } from './paths.js'
import { ConfigError, formatProblems } from './problems.js'
import { resolveConfig } from './resolve.js'
import { readConfigText, yamlOptions } from './text.js'
import type { Env } from './env.js'
import type { Problem } from './problems.js'
import type { ResolveInput } from './resolve.js'

/** A fault of a change, by dotted path; `report` adds the expectation. */
export interface ChangeIssue { path: string, message: string, report: string }

/**
 * The text of svc.yaml after changes (undefined removes a setting), or why they fail: an impossible path or a
 * wrong value. Other text stays, `${env.NAME}` and comments too. Only faults of the changes count: a file may
 * have others, such as a variable that only the node has. `allow` gets both contents first and throws a
 * refusal.
 */
export function changeFile (
  path: string, before: string, changes: readonly (readonly [path: string, value: unknown])[],
  input: ResolveInput, allow: (before: unknown, after: unknown) => void = () => {}
): { text: string } | { wrong: 'path' | 'value', issues: ChangeIssue[] } {
  let text = before
  for (const [key, value] of changes) {
    try {
      text = setInFile(text, key, value)
    } catch (error) {
      const { message } = error as Error
      return { wrong: 'path', issues: [{ path: key, message, report: `${path}: ${message}` }] }
    }
  }
  allow(readConfigText(before, null).value, readConfigText(text, null).value)
  const check = (yaml: string): ChangeIssue[] =>
    resolveConfig(readConfigText(yaml, path), { ...input, env: withoutSettings(input.env) }).problems
      .map((problem) => ({ path: problem.path, message: problem.message, report: reportOf(problem) }))
  const old = new Set(check(before).map(({ report }) => report))
  const issues = check(text).filter(({ report }) => !old.has(report))
  return issues.length > 0 ? { wrong: 'value', issues } : { text }
}

/** Without the variables that override settings: they would hide what the file says. */
const withoutSettings = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SVC_')))

const reportOf = (problem: Problem): string => formatProblems([{ ...problem, line: null, column: null }])

/**
 * The text of svc.yaml with the setting at a dotted path changed; `undefined` removes it. Comments and other
 * text stay if possible. Throws ConfigError for invalid YAML, a bad path, and a path through something else
 * than a map.
 */
export function setInFile (text: string, path: string, value: unknown): string {
  const keys = parsePath(path)
  if (keys === null) throw new ConfigError(`${JSON.stringify(path)} is not a path like api.port`)
  const raw = readConfigText(text, null)
  if (raw.problems.length > 0) throw new ConfigError(formatProblems(raw.problems), raw.problems)
  const wanted = cleanCopy(raw.value) as Tree
  if (value === undefined) deleteIn(wanted, keys)
  else if (!setIn(wanted, keys, cleanCopy(value))) throw new ConfigError(`${path} has no place in the file`)
  // An empty file, too, has nothing to remove.
  if (isDeepStrictEqual(wanted, raw.value)) return text

  const document = parseDocument(text, yamlOptions)
  const candidates = [
    () => value === undefined ? undefined : inPlace(text, document, keys, value),
    () => value === undefined ? undefined : asNewKey(text, document, keys, value),
    () => rewritten(document, keys, value)
  ]
  for (const candidate of candidates) {
    const edited = candidate()
    if (edited !== undefined && saysExactly(edited, wanted)) return edited
  }
  throw new ConfigError(`${path} cannot be changed by program; edit the file by hand`)
}

function saysExactly (text: string, wanted: Tree): boolean {
  const { value, problems } = readConfigText(text, null)
  return problems.length === 0 && isDeepStrictEqual(withoutGaps(value), withoutGaps(wanted))
}

/** An empty section and an absent one say the same. */
function withoutGaps (value: unknown): unknown {
  if (!isTree(value)) return value
  const kept = Object.entries(value).map(([key, inner]) => [key, withoutGaps(inner)] as const)
    .filter(([, inner]) => inner !== null && !(isTree(inner) && Object.keys(inner).length === 0))
  return Object.fromEntries(kept)
}

/** Replaces one value of the text and not a character more. */
function inPlace (text: string, document: Document, keys: Path, value: unknown): string | undefined {
  const node = document.getIn(keys, true)
  if (!isScalar(node) || node.range == null || isTree(value)) return undefined
  const [start, end] = node.range
  if (start === end) return undefined
  return text.slice(0, start) + inline(value) + text.slice(end)
}

function inline (value: unknown): string {
  return stringify(value, { ...yamlOptions, lineWidth: 0, collectionStyle: 'flow' }).trimEnd()
}

/** Adds a key after the last one of the deepest section that exists, or as the first of an empty section. */
function asNewKey (text: string, document: Document, keys: Path, value: unknown): string | undefined {
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  if (document.contents === null) {
    const before = text.trimEnd() === '' ? '' : text.trimEnd() + newline + newline
    return before + block(keys, value, '', newline)
  }
  const depth = deepestMap(document, keys)
  const map = depth === 0 ? document.contents : document.getIn(keys.slice(0, depth), true)
  if (!isMap(map) || map.flow === true || map.items.length === 0 || depth === keys.length) return undefined
  const empty = depth + 1 < keys.length ? emptySection(map, keys[depth]) : undefined
  const { start, end } = empty ?? extent(map)
  const indent = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  if (indent.trim() !== '') return undefined
  const added = empty === undefined
    ? block(keys.slice(depth), value, indent, newline)
    : block(keys.slice(depth + 1), value, indent + '  ', newline)
  const lineEnd = text.indexOf('\n', text[end - 1] === '\n' ? end - 1 : end)
  return lineEnd < 0 ? text + newline + added : text.slice(0, lineEnd + 1) + added + text.slice(lineEnd + 1)
}

/** The extent of `key:` with nothing after it. */
function emptySection (map: YAMLMap, key: string | undefined): { start: number, end: number } | undefined {
  const pair = map.items.find((one) => isScalar(one.key) && one.key.value === key)
  if (!isScalar(pair?.key) || !isScalar(pair.value) || pair.value.value !== null) return undefined
  const [start, end] = [pair.key.range?.[0], pair.value.range?.[0]]
  if (start === undefined || end === undefined || pair.value.range?.[1] !== end) return undefined
  return { start, end }
}

function deepestMap (document: Document, keys: Path): number {
  let depth = 0
  while (depth < keys.length && isMap(document.getIn(keys.slice(0, depth + 1), true))) depth++
  return depth
}

/** From the first key of a map to the end of its last value. */
function extent (map: YAMLMap): { start: number, end: number } {
  const first = map.items[0]?.key as Scalar
  const last = map.items.at(-1) as { key: Scalar, value: Scalar | null }
  return { start: first.range?.[0] ?? 0, end: (last.value?.range ?? last.key.range)?.[1] ?? 0 }
}

function block (keys: Path, value: unknown, indent: string, newline: string): string {
  const tree = keys.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
  const lines = stringify(tree, { ...yamlOptions, lineWidth: 0 }).trimEnd().split('\n')
  return lines.map((line) => indent + line + newline).join('')
}

/** Lets the library write the whole document anew: comments stay, spacing may change. */
function rewritten (document: Document, keys: Path, value: unknown): string {
  if (value === undefined) {
    document.deleteIn(keys)
  } else {
    for (let depth = 1; depth < keys.length; depth++) {
      const section = keys.slice(0, depth)
      const node = document.getIn(section, true)
      const empty = node === null || (isScalar(node) && node.value === null)
      if (empty) document.setIn(section, document.createNode({}))
    }
    document.setIn(keys, document.createNode(value))
  }
  return document.toString({ lineWidth: 0 })
}
