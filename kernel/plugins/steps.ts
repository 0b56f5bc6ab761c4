import { parsePath } from '../config/paths.js'
import { neededBy } from './graph.js'
import type { Plugin } from '../api/plugin.js'
import type { ConfigChange } from '../config/api.js'
import type { OffPlugin } from './plugin-set.js'

/** Plugins that svc.yaml enables, in start order, and the disabled ones. */
interface Arranged { readonly order: readonly Plugin[], readonly off: readonly OffPlugin[] }

/** A plugin as it runs now (`from`) and as svc.yaml requires it (`to`); undefined means off. */
export interface PluginChange {
  readonly name: string
  readonly from: Plugin | undefined
  readonly to: Plugin | undefined
  /** Why the plugin is off; undefined if it is on. */
  readonly off: OffPlugin | undefined
}

export function switchesPlugins ({ set }: ConfigChange): boolean {
  return Object.keys(set).some((path) => {
    const [top, , key = 'enabled'] = parsePath(path) ?? []
    return top === 'plugins' && key === 'enabled'
  })
}

/** Orders changes: stops before starts; requirements start before their dependants and stop after them. */
export function inOrder (names: readonly string[], on: readonly Plugin[], now: Arranged): PluginChange[] {
  const steps = names.map((name) => ({
    name, from: runningOf(on, name), to: runningOf(now.order, name), off: findDisabled(now, name)
  }))
  const stops = on.toReversed().flatMap((plugin) =>
    steps.filter(({ from, to }) => from === plugin && to === undefined))
  const starts = now.order.flatMap((plugin) => steps.filter(({ to }) => to === plugin))
  return [...stops, ...starts, ...steps.filter(({ from, to }) => from === undefined && to === undefined)]
}

/** Names of plugins that require this one, directly or indirectly. */
export function dependantsOf (name: string, { order, off }: Arranged): Set<string> {
  const found = new Set([name])
  const all = [...order, ...off.map(({ plugin }) => plugin)].map(({ manifest }) => manifest)
  for (let size = 0; size < found.size;) {
    size = found.size
    for (const manifest of all) {
      if (neededBy(manifest).some((need) => found.has(need))) found.add(manifest.name)
    }
  }
  found.delete(name)
  return found
}

export const runningOf = (plugins: readonly Plugin[], name: string): Plugin | undefined =>
  plugins.find(({ manifest }) => manifest.name === name)

export const findDisabled =
  ({ off }: { readonly off: readonly OffPlugin[] }, name: string): OffPlugin | undefined =>
    off.find(({ plugin }) => plugin.manifest.name === name)

/** Compares `start`, since rereading svc.yaml creates new Plugin objects with the same `start` function. */
export const samePlugin = (one: Plugin | undefined, other: Plugin | undefined): boolean =>
  one?.start === other?.start
