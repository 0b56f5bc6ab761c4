import { expandEnv, looksLikeReference, readEnv, type Env, type Overlay } from './env.js'
import { schemaAt, type ConfigSchemas } from './config-schemas.js'
import {
  cleanCopy, emptyTree, formatPath, getIn, isForbiddenKey, isTree, isUnder, parsePath, pathKey, setIn,
  type Path, type Tree
} from './paths.js'
import { parseTyped } from './values.js'
import type { Problem } from './problems.js'
import type { Position, RawConfig } from './text.js'

export interface Draft {
  readonly raw: RawConfig
  readonly known: ConfigSchemas
  readonly tree: Tree
  /** Values from flags, then from variables; the first one that covers a path is the origin of its value. */
  readonly overlays: Overlay[]
  /** Paths of values that came from `${env.NAME}`. */
  readonly secrets: Set<string>
  readonly problems: Problem[]
  readonly warnings: Problem[]
}

/** Applies environment variables and flags on top of the file's values, without validation. */
export function makeDraft (
  raw: RawConfig, known: ConfigSchemas, env: Env, flags: Readonly<Record<string, unknown>>
): Draft {
  const draft: Draft = {
    raw, known, tree: cleanCopy(raw.value) as Tree, overlays: [], secrets: new Set(),
    problems: [...raw.problems], warnings: []
  }
  expand(draft, draft.tree, [], env)
  const fromEnv = readEnv(known, env)
  draft.problems.push(...fromEnv.problems)
  draft.warnings.push(...fromEnv.warnings)
  for (const overlay of [...fromEnv.overlays, ...readFlags(draft, flags)]) lay(draft, overlay)
  return draft
}

function expand (draft: Draft, value: Tree | unknown[], path: Path, env: Env): void {
  for (const [key, inner] of Object.entries(value)) {
    const at = [...path, key]
    if (typeof inner === 'object' && inner !== null) expand(draft, inner as Tree | unknown[], at, env)
    else if (typeof inner === 'string') expandText(draft, value as Tree, key, inner, at, env)
  }
}

function expandText (draft: Draft, map: Tree, key: string, text: string, path: Path, env: Env): void {
  const result = expandEnv(text, env)
  if (result.kind === 'plain') {
    if (looksLikeReference(text)) {
      draft.warnings.push(problemAt(draft, path, 'is used literally; write a variable as ${env.NAME}'))
    }
  } else if (result.kind === 'problem') {
    draft.problems.push(problemAt(draft, path, result.message))
    if (!Array.isArray(map)) delete map[key]
  } else {
    const schema = result.whole ? schemaAt(draft.known, path) : undefined
    map[key] = (schema === undefined ? undefined : parseTyped(result.text, schema)) ?? result.text
    draft.secrets.add(pathKey(path))
  }
}

function readFlags (draft: Draft, flags: Readonly<Record<string, unknown>>): Overlay[] {
  return Object.entries(flags).flatMap(([text, value]) => {
    if (value === undefined) return []
    const path = parsePath(text) ?? [text]
    return [{ path, value: cleanCopy(value), origin: 'flag', source: 'command line' }]
  })
}

/** Applies an overlay to the tree; a later overlay overrides an earlier one. */
function lay (draft: Draft, overlay: Overlay): void {
  if (overlay.path.some(isForbiddenKey)) {
    draft.problems.push(problemAt(draft, overlay.path, 'the key is not accepted', { source: overlay.source }))
    return
  }
  // False if the file has a scalar where a section belongs, which the file's validation reports.
  if (setIn(draft.tree, overlay.path, overlay.value)) draft.overlays.unshift(overlay)
}

export function overlayOf (draft: Draft, path: Path): Overlay | undefined {
  return draft.overlays.find((one) => isUnder(path, one.path))
}

/** Position of a path in the file, or of the nearest enclosing section. */
function nearestPosition (raw: RawConfig, path: Path): Position | undefined {
  for (let length = path.length; length > 0; length--) {
    const position = raw.position(path.slice(0, length))
    if (position !== undefined) return position
  }
}

export function problemAt (draft: Draft, path: Path, message: string, more: Partial<Problem> = {}): Problem {
  const overlay = overlayOf(draft, path)
  const position = overlay === undefined ? nearestPosition(draft.raw, path) : undefined
  return {
    file: position === undefined ? null : draft.raw.file, line: position?.line ?? null,
    column: position?.column ?? null, path: formatPath(path), message,
    ...(overlay === undefined ? {} : { source: overlay.source }), ...more
  }
}

/** Turns empty sections (`api:` with nothing below) into empty maps. */
export function openSections (draft: Draft): void {
  const open = (path: Path): void => {
    const value = getIn(draft.tree, path)
    if (value === null) setIn(draft.tree, path, emptyTree())
  }
  open(['plugins'])
  for (const path of draft.known.paths) {
    const schema = schemaAt(draft.known, path)
    if (schema !== undefined && isTree(schema['properties'])) open(path)
  }
}
