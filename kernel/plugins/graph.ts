import semver from 'semver'
import type { Manifest } from '../api/plugin.js'

export const KERNEL_INTERFACE = '1.0.0'

export interface GraphInput {
  manifests: readonly Manifest[]
  disabled: ReadonlySet<string>
  /** Plugins that svc.yaml enables explicitly; disabling one of their requirements is an error. */
  demanded?: ReadonlySet<string>
}

export interface StartOrder {
  /** Plugin names in start order; they stop in reverse order. */
  order: string[]
  /** Enabled plugins that are off because a requirement is off, each with an explanation. */
  down: { plugin: string, message: string }[]
  /** All problems, one sentence each; any of them stops the node from starting. */
  problems: string[]
}

interface Need { name: string, range: string | null }

function parseNeed (text: string): Need {
  const at = text.indexOf('@')
  return at < 0 ? { name: text, range: null } : { name: text.slice(0, at), range: text.slice(at + 1) }
}

/** Name of the plugin that serves the capabilities of every plugin. */
const CAPABILITIES = 'capabilities'

/** Requirements of a plugin; a plugin with capabilities also requires the plugin `capabilities`. */
export function needsOf ({ requires = [], capabilities }: Manifest): Need[] {
  const needs = requires.map(parseNeed)
  const implied = capabilities !== undefined && needs.every(({ name }) => name !== CAPABILITIES)
  return implied ? [...needs, { name: CAPABILITIES, range: null }] : needs
}

export const neededBy = (manifest: Manifest): string[] => needsOf(manifest).map(({ name }) => name)

/** Orders plugins by `requires` and `after`, and reports every problem at once. Pure. */
export function sortByDependency (input: GraphInput): StartOrder {
  const problems = [...duplicates(input.manifests), ...wrongKernel(input.manifests)]
  const byName = new Map(input.manifests.map((m) => [m.name, m]))
  problems.push(...unmetNeeds(byName))
  const down = takenDown(byName, input.disabled)
  for (const { plugin, message } of down) if (input.demanded?.has(plugin) === true) problems.push(message)
  const off = new Set([...input.disabled, ...down.map((d) => d.plugin)])
  const { order, cycles } = topological([...byName.values()].filter((m) => !off.has(m.name)))
  for (const path of cycles) problems.push(`plugins require each other in a cycle: ${path.join(' -> ')}`)
  return { order, down, problems }
}

function duplicates (manifests: readonly Manifest[]): string[] {
  const counts = new Map<string, number>()
  for (const { name } of manifests) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].filter(([, n]) => n > 1)
    .map(([name, n]) => `${n} plugins are named "${name}"; names must be unique`)
}

function wrongKernel (manifests: readonly Manifest[]): string[] {
  return manifests.filter((m) => !semver.satisfies(KERNEL_INTERFACE, m.kernel)).map((m) =>
    `plugin "${m.name}" was written for kernel ${m.kernel}, this one is ${KERNEL_INTERFACE}`)
}

function unmetNeeds (byName: ReadonlyMap<string, Manifest>): string[] {
  const problems: string[] = []
  for (const manifest of byName.values()) {
    for (const { name, range } of needsOf(manifest)) {
      const found = byName.get(name)
      if (found === undefined) {
        problems.push(`plugin "${manifest.name}" requires "${name}", which is not installed`)
      } else if (range !== null && !semver.satisfies(found.version, range)) {
        problems.push(`plugin "${manifest.name}" requires ${name}@${range}, found ${found.version}`)
      }
    }
  }
  return problems
}

/** Plugins that are off because a direct or indirect requirement is disabled. */
function takenDown (
  byName: ReadonlyMap<string, Manifest>, disabled: ReadonlySet<string>
): StartOrder['down'] {
  const down = new Map<string, string>()
  const isOff = (name: string): boolean => disabled.has(name) || down.has(name)
  for (let changed = true; changed;) {
    changed = false
    for (const manifest of byName.values()) {
      const { name } = manifest
      if (isOff(name)) continue
      const missing = neededBy(manifest).find(isOff)
      if (missing === undefined) continue
      down.set(name, `plugin "${name}" is off because it requires "${missing}", which is ` +
      `${disabled.has(missing) ? 'disabled' : 'off'}; \`svc plugin enable ${missing}\` enables it`)
      changed = true
    }
  }
  return [...down].map(([plugin, message]) => ({ plugin, message }))
}

/** Kahn's algorithm; ties keep the order of `manifests`, so the same input always gives the same order. */
function topological (manifests: readonly Manifest[]): { order: string[], cycles: string[][] } {
  const names = new Set(manifests.map((m) => m.name))
  const predecessors = (m: Manifest): Set<string> => new Set(
    [...neededBy(m), ...(m.after ?? [])].filter((n) => names.has(n)))
  const before = new Map(manifests.map((m) => [m.name, predecessors(m)]))
  const order: string[] = []
  const placed = new Set<string>()
  for (let moved = true; moved;) {
    moved = false
    for (const { name } of manifests) {
      if (placed.has(name) || [...before.get(name)!].some((n) => !placed.has(n))) continue
      placed.add(name)
      order.push(name)
      moved = true
    }
  }
  const rest = manifests.map((m) => m.name).filter((n) => !placed.has(n))
  return { order, cycles: rest.length === 0 ? [] : [closedPath(rest, before)] }
}

/** Finds one cycle among plugins that could not be ordered; its first name is repeated at the end. */
function closedPath (rest: readonly string[], before: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const stuck = new Set(rest)
  const path: string[] = []
  let at = rest[0]!
  while (!path.includes(at)) {
    path.push(at)
    at = [...before.get(at)!].find((n) => stuck.has(n))!
  }
  return [...path.slice(path.indexOf(at)), at]
}

/** Direct and indirect requirements of a plugin. */
export function transitive (name: string, byName: ReadonlyMap<string, Manifest>): Set<string> {
  const needs = (one: string): string[] => [byName.get(one) ?? []].flat().flatMap(neededBy)
  const found = new Set(needs(name))
  // The loop also visits the requirements that it adds.
  for (const one of found) for (const need of needs(one)) found.add(need)
  return found
}
