import { AuditService } from '../api/audit.js'
import { neededBy } from './graph.js'
import type { Manifest, ServiceRef } from '../api/plugin.js'

/** A change to one plugin while the node runs: start, stop or replace. */
export interface Move {
  readonly name: string
  /** Manifests of the plugin before and after the change; undefined where it does not run. */
  readonly from: Manifest | undefined
  readonly to: Manifest | undefined
  /** Manifests of the other running plugins, with only the optional services that they read in `start`. */
  readonly others: readonly Manifest[]
  /** Names of the plugins that svc.yaml enables, before and after the change. */
  readonly before: readonly string[]
  readonly after: readonly string[]
  /** Keys of GET /state that were declared as whereabouts or readings when the node started. */
  readonly named: ReadonlySet<string>
}

/** Why a change needs a restart, as the end of a sentence; null if it needs none. Pure. */
export function restartReason (move: Move): string | null {
  const { name, from, to, before, after } = move
  const along = [...new Set([...before, ...after])]
    .filter((one) => one !== name && before.includes(one) !== after.includes(one))
  if (along.length > 0) return `it also switches ${along.map(quoted).join(', ')}`
  const stop = from === undefined ? null : stopReason(from, move)
  return stop ?? (to === undefined ? null : startReason(to, move))
}

const quoted = (name: string): string => `"${name}"`

function stopReason (from: Manifest, move: Move): string | null {
  for (const other of move.others) {
    if (neededBy(other).includes(from.name)) return `"${other.name}" requires it`
    const used = shared(from, { ...other.consumes, ...other.consumesOptional })
    if (used !== undefined) return `"${other.name}" uses its service "${used}"`
  }
  // The audit plugin must record how this change ends, so it cannot be stopped before then.
  if (shared(from, { audit: AuditService }) !== undefined) return 'it records the changes in progress'
  return engineReason(from)
}

function startReason (to: Manifest, move: Move): string | null {
  const { others, named } = move
  const missing = neededBy(to).find((need) => !others.some((other) => other.name === need))
  if (missing !== undefined) return `it requires "${missing}", which is not running yet`
  for (const other of others) {
    const wanted = shared(to, other.consumesOptional ?? {})
    if (wanted !== undefined) return `"${other.name}" would use its service "${wanted}"`
  }
  const key = [...to.stateWhereabouts ?? [], ...to.stateReadings ?? []].find((one) => !named.has(one))
  if (key !== undefined) return `it changes how "${key}" of /state is shown, which is set at the start`
  return engineReason(to)
}

/** The plugin that runs models reads the engines only during `start`. */
function engineReason ({ engines = {} }: Manifest): string | null {
  const [engine] = Object.keys(engines)
  return engine === undefined ? null : `engines such as its "${engine}" are registered at the start`
}

/** Id of a service that the manifest provides and that is in `wanted`; undefined if none is. */
function shared (
  manifest: Manifest, wanted: Readonly<Record<string, ServiceRef<unknown>>>
): string | undefined {
  const ids = new Set(Object.values(wanted).map(({ id }) => id))
  return Object.values(manifest.provides ?? {}).map(({ id }) => id).find((id) => ids.has(id))
}
