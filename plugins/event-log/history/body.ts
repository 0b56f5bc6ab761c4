import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { ClusterPart, Fields } from './part.js'

export interface Recorded {
  /** The cluster part: session, membership and instances as of the snapshot's index. */
  readonly part: ClusterPart
  /** True if the node knew no master; then `state` is only its own view, and `part` comes from events. */
  readonly stale: boolean
  /** Keys of the state that a large snapshot leaves out. */
  readonly omitted: readonly string[]
  readonly state: Fields
}

/** Maximum bytes of a snapshot; beyond it, the largest keys of the state are left out. */
const BODY_BYTES = 1024 * 1024
/** Keys that are never left out, because a state is useless without them. */
const ESSENTIAL = new Set(['sessionId', 'masterNodeId', 'localNodeId', 'cluster', 'lastEventAppliedIdx'])
/** A duplicate of the state key `nodeIdentities`, which snapshots contain. */
const TWIN = 'node_identities'
/** Not recorded, because tasks end too soon to matter in a snapshot and took most of the disk space. */
const TRANSIENT = 'tasks'

/** Encodes a snapshot as JSON, deflated, base64. Drops the largest keys if it exceeds `most` bytes. Pure. */
export function encodeBody (
  { part, stale }: Pick<Recorded, 'part' | 'stale'>, state: Fields, most = BODY_BYTES
): string {
  const pieces = Object.entries(state)
    .filter(([key, value]) => key !== TWIN && key !== TRANSIENT && value !== undefined)
    .map(([key, value]) => {
      const text = `${JSON.stringify(key)}:${JSON.stringify(value)}`
      return { key, text, bytes: Buffer.byteLength(text) + 1 }
    })
  const head = JSON.stringify({ part, stale })
  let bytes = pieces.reduce((sum, piece) => sum + piece.bytes, Buffer.byteLength(head) + 100)
  const omitted = new Set<string>()
  const largest = pieces.filter(({ key }) => !ESSENTIAL.has(key)).sort((a, b) => b.bytes - a.bytes)
  for (const piece of largest) {
    if (bytes <= most) break
    omitted.add(piece.key)
    bytes -= piece.bytes
  }
  const kept = pieces.filter(({ key }) => !omitted.has(key)).map(({ text }) => text)
  const json = `${head.slice(0, -1)},"omitted":${JSON.stringify([...omitted])},"state":{${kept.join(',')}}}`
  return deflateRawSync(json, { level: 1 }).toString('base64')
}

/** Decodes the output of `encodeBody`, or the bare JSON of older versions. Throws for anything else. */
export function decodeBody (body: string): Recorded {
  const json = body.startsWith('{') ? body : inflateRawSync(Buffer.from(body, 'base64')).toString()
  const { part, stale, omitted, state } = JSON.parse(json) as Recorded
  const whole = Object.fromEntries(Object.entries(state).flatMap(([key, value]) =>
    key === 'nodeIdentities' ? [[key, value], [TWIN, value]] : [[key, value]]))
  return { part, stale, omitted, state: whole }
}

/** Keys with readings, which change constantly and so do not cause another snapshot on their own. */
const READINGS = new Set([
  'lastSeen', 'nodeMemory', 'nodeSystem', 'nodeDisk', 'nodeNetwork', TRANSIENT, 'lastEventAppliedIdx',
  'topology', 'localNodeId', TWIN
])

/** Text for comparing states, without digits: readings, times and progress make no difference. Pure. */
export function noteOf (state: Fields, part: ClusterPart): string {
  const noted = Object.entries(state).filter(([key]) => !READINGS.has(key))
  return JSON.stringify([part.members, noted],
    // Leave out `capabilityConflicts`, because nodeHealth contains the same conflicts.
    (key, value: unknown) => key === 'capabilityConflicts' ? undefined : value)
    .replace(/\d+/g, '').replaceAll('RunnerRunning', 'RunnerReady')
}
