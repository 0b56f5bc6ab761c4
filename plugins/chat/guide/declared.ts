import type { JsonSchema, Manifest, RouteDecl, VerbDecl } from '../../../kernel/index.js'
import type { DeclarationSet } from '../../../kernel/cli/index.js'
import type { GuideEntry } from './entries.js'

interface Meaning { kind: string, word: string, text: string }

const entries = <T>(record: Readonly<Record<string, T>> | undefined): [string, T][] =>
  Object.entries(record ?? {})
const code = (text: string): string => '`' + text + '`'

/**
 * One sheet per declared word: error reasons, health codes, events, authorities, exit codes, settings, verbs,
 * routes, capabilities, engines and keys of /state. A word of several kinds has one sheet with all meanings,
 * named after the first kind.
 */
export function declaredSheets (declared: DeclarationSet): GuideEntry[] {
  const byWord = new Map<string, Meaning[]>()
  for (const meaning of meaningsOf(declared)) {
    byWord.set(meaning.word, [...byWord.get(meaning.word) ?? [], meaning])
  }
  return [...byWord].map(([word, meanings]) => ({
    id: `${meanings[0]!.kind}:${word.replace(/^svc /, '').replaceAll(' ', '_')}`,
    title: titleOf(meanings[0]!),
    answer: [...new Set(meanings.map(({ text }) => text))].join('\n'),
    code: word,
    asked: {}
  }))
}

const titles: Readonly<Record<string, string>> = {
  error: 'Error', health: 'Health code', event: 'Event', authority: 'Authority', exit: 'Exit code',
  config: 'Setting', verb: 'Verb', route: 'Route', capability: 'Capability', engine: 'Engine',
  state: 'Key of /state'
}
const titleOf = ({ kind, word }: Meaning): string => `${titles[kind]} ${code(word)}`

function meaningsOf ({ manifests, settings, verbs, exitCodes }: DeclarationSet): Meaning[] {
  return [
    ...manifests.flatMap(codesOf),
    ...exitCodes.map(([status, meaning]): Meaning =>
      ({ kind: 'exit', word: String(status), text: `Exit code ${status} of svc: ${meaning}.` })),
    ...[verbs, ...manifests.map((m) => m.verbs ?? {})].flatMap((record) => entries(record).map(verbOf)),
    ...entries(settings).flatMap(([key, schema]) => settingsOf(key, schema)),
    ...manifests.flatMap(pluginSettings), ...manifests.flatMap(thingsOf)
  ]
}

const meaningsIn = <T>(
  kind: string, record: Readonly<Record<string, T>> | undefined, textOf: (word: string, value: T) => string
): Meaning[] =>
  entries(record).map(([word, value]) => ({ kind, word, text: textOf(code(word), value) }))

const codesOf = (m: Manifest): Meaning[] => [
  ...meaningsIn('error', m.errors, (word, { status, message, remedy, retryable }) => {
    const again = retryable === true ? ' The request can be retried.' : ''
    return `${word} (error, HTTP ${status}): ${message} ${remedy}${again}`
  }),
  ...meaningsIn('health', m.conflicts, (word, { severity, meaning, remediation }) =>
    `${word} (health code, ${severity}): ${meaning} ${remediation}`),
  ...meaningsIn('event', m.events, (word, { summary }) =>
    `${word} (event): ${summary} \`svc events\` shows events.`),
  ...meaningsIn('authority', m.authorities, (word, text) => `${word} (authority): ${text}`)
]

function verbOf ([name, verb]: [string, Omit<VerbDecl, 'load'>]): Meaning {
  const { args, summary, options = [], examples = [] } = verb
  const usage = ['svc', name, ...args === undefined ? [] : [args]].join(' ')
  const flags = options.map(([flag]) => flag.replace(/^-\w, /, '').split(' ')[0]).join(', ')
  const lines = [
    `${code(usage)}: ${summary}.`,
    ...(flags === '' ? [] : [`Options: ${flags}.`]),
    ...(examples.length === 0 ? [] : [`For example ${code(examples[0]!)}.`])
  ]
  return { kind: 'verb', word: `svc ${name}`, text: lines.join(' ') }
}

/** A setting, or the settings nested in it. */
function settingsOf (path: string, schema: JsonSchema): Meaning[] {
  const inner = entries((schema['properties'] ?? {}) as Record<string, JsonSchema>)
  const text = typeof schema['description'] === 'string' ? schema['description'] : 'A group of settings.'
  const preset = schema['default'] === undefined ? '' : ` Default ${code(JSON.stringify(schema['default']))}.`
  const variable = `SVC_${path.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}`
  const own = inner.length > 0 || path === ''
    ? []
    : [{
        kind: 'config', word: path, text: `${code(path)} (setting): ${text}${preset} Variable ${variable}.`
      }]
  return [...own, ...inner.flatMap(([key, one]) => settingsOf(`${path}.${key}`, one))]
}

const pluginSettings = (m: Manifest): Meaning[] => [
  ...entries(m.settings).flatMap(([key, schema]) => settingsOf(key, schema)),
  ...(m.config === undefined ? [] : settingsOf(`plugins.${m.name}`, m.config))
]

function routeOf ({ method, url, authority, summary }: RouteDecl): Meaning {
  const word = `${method} ${url}`
  const needs = authority === null ? 'no token' : `the authority ${code(authority)}`
  return { kind: 'route', word, text: `${code(word)} (route, needs ${needs}): ${summary}` }
}

const thingsOf = (m: Manifest): Meaning[] => [
  ...Object.values(m.routes ?? {}).map(routeOf),
  ...Object.values(m.capabilities ?? {}).map(({ id, version, description }): Meaning => {
    const word = `${id}@${version}`
    return { kind: 'capability', word, text: `${code(word)}: ${description}` }
  }),
  ...meaningsIn('engine', m.engines, (word, { summary, backends }) =>
    `${word} (engine for ${backends.join(', ')}): ${summary}`),
  ...meaningsIn('state', m.state, (word, text) => `${word} (key of /state): ${text}`)
]
