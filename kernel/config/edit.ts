import { isDeepStrictEqual } from 'node:util'
import { isMap, isScalar, parseDocument, stringify, type Document } from 'yaml'
import { cleanCopy, deleteIn, isTree, parsePath, setIn, type Path, type Tree } from './paths.js'
import { ConfigError, formatProblems, type Problem } from './problems.js'
import { resolveConfig, type ResolveInput } from './resolve.js'
import { readConfigText, yamlOptions } from './text.js'
import type { Env } from './env.js'

/** A problem with a change; `path` is dotted, `report` is the message with the expected value. */
export interface ChangeIssue { path: string, message: string, report: string }

/**
 * Changes the text of svc.yaml (undefined removes a setting); other text stays, such as comments. Returns the
 * text, or the problems with the changes: an invalid path or value. Other problems in the file are ignored,
 * such as a variable that only the node's environment has. `allow` first gets the contents before and after,
 * and throws to refuse the change.
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

/** Removes variables that override settings, since they would hide the file's values. */
const withoutSettings = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SVC_')))

const reportOf = (problem: Problem): string => formatProblems([{ ...problem, line: null, column: null }])

/**
 * Changes the setting at a dotted path in the text of svc.yaml; `undefined` removes it. Comments and other
 * text stay if possible. Throws ConfigError for invalid YAML, an invalid path, and a path through a value
 * that is not a map.
 */
export function setInFile (text: string, path: string, value: unknown): string {
  const keys = parsePath(path)
  if (keys === null) throw new ConfigError(`${JSON.stringify(path)} is not a path like api.port`)
  const raw = readConfigText(text, null)
  if (raw.problems.length > 0) throw new ConfigError(formatProblems(raw.problems), raw.problems)
  const wanted = cleanCopy(raw.value) as Tree
  if (value === undefined) deleteIn(wanted, keys)
  else if (!setIn(wanted, keys, cleanCopy(value))) throw new ConfigError(`${path} does not fit into the file`)
  // Nothing changes, for example if a setting that the file lacks is removed.
  if (isDeepStrictEqual(wanted, raw.value)) return text

  const document = parseDocument(text, yamlOptions)
  for (const edit of [inPlace, rewritten]) {
    const edited = edit(text, document, keys, value)
    if (edited !== undefined && saysExactly(edited, wanted)) return edited
  }
  throw new ConfigError(`${path} cannot be changed automatically; edit the file by hand`)
}

function saysExactly (text: string, wanted: Tree): boolean {
  const { value, problems } = readConfigText(text, null)
  return problems.length === 0 && isDeepStrictEqual(withoutGaps(value), withoutGaps(wanted))
}

/** Copies settings without empty sections, which mean the same as absent ones. */
export const withoutGaps = (value: unknown): unknown => JSON.parse(JSON.stringify(value ?? null),
  (_, inner: unknown) => isTree(inner) && Object.keys(inner).length === 0 ? undefined : inner)

/** Replaces only the characters of one value; fails if that is not possible. */
function inPlace (text: string, document: Document, keys: Path, value: unknown): string | undefined {
  if (value === undefined) return undefined
  const node = document.getIn(keys, true)
  if (!isScalar(node) || node.range == null || isTree(value)) return undefined
  const [start, end] = node.range
  if (start === end) return undefined
  const inline = stringify(value, { ...yamlOptions, lineWidth: 0, collectionStyle: 'flow' }).trimEnd()
  return text.slice(0, start) + inline + text.slice(end)
}

/** Has the YAML library write the whole document: comments and blank lines stay, spacing may change. */
function rewritten (text: string, document: Document, keys: Path, value: unknown): string {
  if (value === undefined) {
    document.deleteIn(keys)
    for (let depth = keys.length - 1; depth > 0; depth--) {
      const section = document.getIn(keys.slice(0, depth), true)
      if (!isMap(section) || section.items.length > 0) break
      document.deleteIn(keys.slice(0, depth))
    }
  } else {
    for (let depth = 1; depth < keys.length; depth++) {
      const section = keys.slice(0, depth)
      const node = document.getIn(section, true)
      if (node !== null && !(isScalar(node) && node.value === null)) continue
      const map = document.createNode({})
      map.commentBefore = node?.commentBefore ?? node?.comment ?? null
      document.setIn(section, map)
    }
    document.setIn(keys, document.createNode(value))
  }
  const indent = /^( +)\S/m.exec(text)?.[1]?.length ?? 2
  const written = document.toString({ lineWidth: 0, indent, flowCollectionPadding: /[[{] \S/.test(text) })
  // Without any settings, the YAML library writes `{}`, which is dropped so that only comments remain.
  const whole = isMap(document.contents) && document.contents.items.length === 0
    ? written.replace(/^\{\}\n/m, '')
    : written
  return text.includes('\r\n') ? whole.replaceAll(/\r?\n/g, '\r\n') : whole
}
