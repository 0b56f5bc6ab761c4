import { neededBy, transitive } from './graph.js'
import { kernelErrors } from '../api/errors.js'
import { nearest } from '../config/nearest.js'
import { isKernelService, kernelManifest } from './kernel-manifest.js'
import type { Manifest, RouteDecl } from '../api/plugin.js'

export interface RegistryEntry { owner: string, kind: string, key: string }

const WORD = /^[a-z][a-z0-9_]*$/
const NAME = /^[a-z][a-z0-9-]*$/
const EVENT = /^[A-Z][A-Za-z0-9]*$/

const FIELDS = ('name version kernel summary requires after config settings consumes consumesOptional ' +
  'provides authorities routes events errors conflicts capabilities sections commands state ' +
  'stateWhereabouts stateReadings engines models verbs checks tools status credentials deviceNews ' +
  'variables devSettings firstSteps reloads').split(' ')

/** Everything in a manifest that must be unique among all plugins. */
export function contributions (m: Manifest): RegistryEntry[] {
  const own = (kind: string, keys: readonly string[]): RegistryEntry[] =>
    keys.map((key) => ({ owner: m.name, kind, key }))
  const keys = (record: object | undefined): string[] => Object.keys(record ?? {})
  return [
    ...own('route', Object.values(m.routes ?? {}).flatMap(({ method, url, also = [] }) =>
      [url, ...also].map((path) => `${method} ${path}`))),
    ...own('event', keys(m.events)),
    ...own('error reason', keys(m.errors)),
    ...own('conflict code', keys(m.conflicts)),
    ...own('authority', keys(m.authorities)),
    ...own('capability', Object.values(m.capabilities ?? {}).map((c) => `${c.id}@${c.version}`)),
    ...own('section', keys(m.sections)),
    ...own('state key', keys(m.state)),
    ...own('service', Object.values(m.provides ?? {}).map((s) => s.id)),
    ...own('engine', keys(m.engines)),
    ...own('bundled model', keys(m.models)),
    ...own('verb', keys(m.verbs)),
    ...own('check', keys(m.checks)),
    ...own('tool', keys(m.tools)),
    ...own('top-level setting', keys(m.settings))
  ]
}

/** All problems in the declarations, one sentence each. Pure. */
export function checkManifests (plugins: readonly Manifest[]): string[] {
  const problems: string[] = []
  const byName = new Map(plugins.map((m) => [m.name, m]))
  for (const manifest of plugins) problems.push(...badShape(manifest))
  problems.push(...twoOwners([kernelManifest, ...plugins]))
  for (const manifest of plugins) {
    problems.push(...badRoutes(manifest, byName, plugins))
    problems.push(...badServices(manifest, byName))
  }
  return problems
}

function badShape (m: Manifest): string[] {
  const problems: string[] = []
  const bad = (what: string): void => { problems.push(`plugin "${String(m.name)}": ${what}`) }
  for (const field of Object.keys(m)) {
    const near = nearest(field, FIELDS)
    const meant = near === undefined ? '' : `; did you mean "${near}"?`
    if (!FIELDS.includes(field)) bad(`a manifest has no field "${field}"${meant}`)
  }
  if (typeof m.name !== 'string' || !NAME.test(m.name)) bad('its name must be lower-case words joined by "-"')
  if (typeof m.summary !== 'string' || m.summary === '') bad('it needs a summary of one sentence')
  if (typeof m.version !== 'string') bad('it needs a version such as "1.0.0"')
  if (typeof m.kernel !== 'string') bad('it needs a kernel range such as "^1.0.0"')
  for (const word of [m.errors, m.conflicts, m.tools].flatMap((words) => Object.keys(words ?? {}))) {
    if (!WORD.test(word)) bad(`"${word}" must be a snake_case word`)
  }
  for (const kind of Object.keys(m.events ?? {})) {
    if (!EVENT.test(kind)) bad(`event "${kind}" must be CamelCase`)
  }
  for (const [id, e] of Object.entries(m.errors ?? {})) {
    if (!e.remedy) bad(`error "${id}" needs a remedy: what to do next`)
    if (!(e.status >= 400 && e.status <= 599)) bad(`error "${id}" needs an HTTP status from 400 to 599`)
  }
  for (const [id, c] of Object.entries(m.conflicts ?? {})) {
    if (!c.remediation) bad(`conflict "${id}" needs a remediation`)
  }
  return problems
}

function twoOwners (all: readonly Manifest[]): string[] {
  const owners = new Map<string, string>()
  const problems: string[] = []
  for (const { owner, kind, key } of all.flatMap(contributions)) {
    const id = `${kind} ${routeShape(kind, key)}`
    const first = owners.get(id)
    // A plugin may provide a /state key for which the kernel has only an empty value.
    const filled = kind === 'state key' && first === 'kernel'
    if (first === undefined || filled) owners.set(id, owner)
    else problems.push(`${kind} "${key}" is declared by both "${first}" and "${owner}"`)
  }
  return problems
}

/** Normalises parameter names, since `/a/:x` and `/a/:y` are the same route. */
function routeShape (kind: string, key: string): string {
  return kind === 'route' ? key.replace(/:[A-Za-z_]+/g, ':') : key
}

function badRoutes (m: Manifest, byName: ReadonlyMap<string, Manifest>, all: readonly Manifest[]): string[] {
  const problems: string[] = []
  const authorities = new Set([kernelManifest, ...all].flatMap((p) => Object.keys(p.authorities ?? {})))
  const reachable = [m, ...[...transitive(m.name, byName)].flatMap((n) => byName.get(n) ?? [])]
  const reasons = new Set([
    ...Object.keys(kernelErrors), ...reachable.flatMap((p) => Object.keys(p.errors ?? {}))
  ])
  for (const [id, route] of Object.entries(m.routes ?? {})) {
    const at = `plugin "${m.name}", route ${id} (${route.method} ${route.url})`
    const { authority } = route as { authority?: string | null }
    if (authority === undefined) {
      problems.push(`${at}: it declares no authority; write null for none`)
    } else if (authority !== null && !authorities.has(authority)) {
      problems.push(`${at}: unknown authority "${authority}"`)
    }
    if (!route.url.startsWith('/')) problems.push(`${at}: the url must begin with "/"`)
    for (const reason of route.errors ?? []) {
      if (reasons.has(reason)) continue
      problems.push(`${at}: error "${reason}" is declared neither here nor by a required plugin`)
    }
  }
  return problems
}

function badServices (m: Manifest, byName: ReadonlyMap<string, Manifest>): string[] {
  const providers = new Set([...transitive(m.name, byName)].flatMap((n) =>
    Object.values(byName.get(n)?.provides ?? {}).map((s) => s.id)))
  return Object.entries(m.consumes ?? {})
    .filter(([, ref]) => !providers.has(ref.id) && !isKernelService(ref.id))
    .map(([key, ref]) => `plugin "${m.name}" consumes the service "${ref.id}" (${key}), ` +
      `but no required plugin (${needs(m)}) provides it`)
}

const needs = (m: Manifest): string => neededBy(m).join(', ') || 'nothing'

export interface OwnedRoute { owner: string, name: string, decl: RouteDecl }

export function routesOf (manifests: readonly Manifest[]): OwnedRoute[] {
  return manifests.flatMap((m) =>
    Object.entries(m.routes ?? {}).map(([name, decl]) => ({ owner: m.name, name, decl })))
}
