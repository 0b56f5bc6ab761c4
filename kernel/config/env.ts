import { formatPath, type Path } from './paths.js'
import { nearest } from './nearest.js'
import { isSecret, type ConfigSchemas } from './config-schemas.js'
import { describe, parseTyped, show } from './values.js'
import type { Problem } from './problems.js'

export type Env = Readonly<Record<string, string | undefined>>

/** `SVC_*` variables that do not override settings, in addition to those that plugins declare. */
const specials = [
  'SVC_HOME', 'SVC_CONFIG', 'SVC_URL', 'SVC_TOKEN', 'SVC_TELEMETRY_DISABLE', 'SVC_DEBUG', 'SVC_NO_LAUNCHER',
  'SVC_JOIN'
]
/** Variables for engine binaries, tests and benchmarks, and those that svc's processes set for each other. */
const specialForms = /^SVC_(.+_SERVER_BIN|TEST_.+|BENCH_.+|LAUNCHER_.+|LISTEN_FD|RUNNER_MARK)$/

/** Name of the variable that overrides the setting at a path, e.g. `SVC_PLUGINS_RUNNERS_THREADS`. */
export function envName (path: Path): string {
  return 'SVC_' + path.join('_').toUpperCase().replace(/[^A-Z0-9]/g, '_')
}

export interface Overlay {
  readonly path: Path
  readonly value: unknown
  readonly origin: 'env' | 'flag'
  /** Name of the variable, or `command line`. */
  readonly source: string
}

type Target = ConfigSchemas['leaves'][number]

/** Reads the `SVC_*` variables that override settings; an unknown variable causes a warning. */
export function readEnv (
  known: ConfigSchemas, env: Env
): { overlays: Overlay[], problems: Problem[], warnings: Problem[] } {
  // Settings that each variable name may mean; using an ambiguous name is an error.
  const targets = new Map<string, Target[]>()
  for (const leaf of known.leaves) {
    const name = envName(leaf.path)
    targets.set(name, [...targets.get(name) ?? [], leaf])
  }
  const others = [...specials, ...known.owners.flatMap(({ variables = {} }) => Object.keys(variables))]
  const overlays: Overlay[] = []
  const problems: Problem[] = []
  const warnings: Problem[] = []
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || !name.startsWith('SVC_')) continue
    if (others.includes(name) || specialForms.test(name)) continue
    const [target, rival] = targets.get(name) ?? []
    if (target === undefined) {
      warnings.push(unknownVariable(name, [...targets.keys(), ...others]))
    } else if (rival !== undefined) {
      const both = `${formatPath(target.path)} and ${formatPath(rival.path)}`
      problems.push(at(name, '', `could mean ${both}; set it in svc.yaml instead`))
    } else {
      const value = parseTyped(text, target.schema)
      if (value === undefined) problems.push(badValue(known, name, text, target))
      else overlays.push({ path: target.path, value, origin: 'env', source: name })
    }
  }
  return { overlays, problems, warnings }
}

function at (source: string, path: string, message: string): Problem {
  return { file: null, line: null, column: null, source, path, message }
}

function badValue (known: ConfigSchemas, name: string, text: string, { path, schema }: Target): Problem {
  const expected = describe(schema)
  const found = isSecret(known, path) ? 'a hidden value' : show(text)
  return { ...at(name, formatPath(path), `expected ${expected}, found ${found}`), expected }
}

function unknownVariable (name: string, names: readonly string[]): Problem {
  const suggestion = nearest(name, names)
  const problem = at(name, '', 'unknown variable')
  return suggestion === undefined ? problem : { ...problem, suggestion }
}

const reference = /\$\{env\.([A-Za-z_][A-Za-z0-9_]*)\}/g

export type Expanded =
  | { readonly kind: 'plain' }
  | { readonly kind: 'value', readonly text: string, readonly whole: boolean }
  | { readonly kind: 'problem', readonly message: string }

/** Replaces `${env.NAME}` in a string, not recursively; `whole`: the string was a single reference. */
export function expandEnv (text: string, env: Env): Expanded {
  const names = [...text.matchAll(reference)].map((match) => match[1] ?? '')
  const malformed = text.replace(reference, '').includes('${env.')
  if (malformed) return { kind: 'problem', message: 'write a reference to the environment as ${env.NAME}' }
  if (names.length === 0) return { kind: 'plain' }
  const missing = [...new Set(names.filter((name) => env[name] === undefined))]
  if (missing.length > 0) {
    const variables = missing.length === 1 ? 'variable' : 'variables'
    return { kind: 'problem', message: `the environment has no ${variables} ${missing.join(', ')}` }
  }
  const whole = names.length === 1 && text === `\${env.${names[0] ?? ''}}`
  return { kind: 'value', text: text.replace(reference, (_, name: string) => env[name] ?? ''), whole }
}

/** True for text with `${NAME}`, which is left unchanged but probably should be `${env.NAME}`. */
export function looksLikeReference (text: string): boolean { return /\$\{[A-Za-z_]\w*\}/.test(text) }
