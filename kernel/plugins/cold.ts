import { AuditService } from '../api/audit.js'
import { neededBy } from './graph.js'
import type { Manifest, ServiceRef } from '../api/plugin.js'

/** A plugin that is to start, to stop, or to be replaced while the node runs. */
export interface Move {
  readonly name: string
  /** Its manifest as it runs, and as it is to run. */
  readonly from: Manifest | undefined
  readonly to: Manifest | undefined
  /** The other plugins that run, each with only those optional services that it read in its start. */
  readonly others: readonly Manifest[]
  /** Names of the plugins that svc.yaml lets run, before the change and after it. */
  readonly before: readonly string[]
  readonly after: readonly string[]
  /** Names in /state that this node has known since its start. */
  readonly named: ReadonlySet<string>
}

/** Why a change can only be made by a restart, as the end of a sentence; null when it needs none. Pure. */
export function restartReason (move: Move): string | null {
  const { name, from, to, before, after } = move
  const along = [...new Set([...before, ...after])]
    .filter((one) => one !== name && before.includes(one) !== after.includes(one))
  if (along.length > 0) return `it switches ${along.map(quoted).join(', ')} with it`
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
  // The audit must record how a change it recorded ends, so it cannot be stopped until then.
  if (shared(from, { audit: AuditService }) !== undefined) return 'open changes are recorded by it'
  return engineReason(from)
}

function startReason (to: Manifest, move: Move): string | null {
  const { others, named } = move
  const missing = neededBy(to).find((need) => !others.some((other) => other.name === need))
  if (missing !== undefined) return `it requires "${missing}", which does not run yet`
  for (const other of others) {
    const wanted = shared(to, other.consumesOptional ?? {})
    if (wanted !== undefined) return `"${other.name}" would use its service "${wanted}"`
  }
  const key = [...to.stateWhereabouts ?? [], ...to.stateReadings ?? []].find((one) => !named.has(one))
  if (key !== undefined) return `it says how "${key}" of /state is shown, which is read at the start`
  return engineReason(to)
}

/** Those who run models read the engines in their start. */
function engineReason ({ engines = {} }: Manifest): string | null {
  const [engine] = Object.keys(engines)
  return engine === undefined ? null : `engines such as its "${engine}" are looked for at the start`
}

/** The id of a service that a plugin provides and that is wanted. */
function shared (
  manifest: Manifest, wanted: Readonly<Record<string, ServiceRef<unknown>>>
): string | undefined {
  const ids = new Set(Object.values(wanted).map(({ id }) => id))
  return Object.values(manifest.provides ?? {}).map(({ id }) => id).find((id) => ids.has(id))
}
