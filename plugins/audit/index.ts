import { join } from 'node:path'
import { definePlugin, kernelError, MemberFault, noSuchNode } from '../../kernel/index.js'
import { Chain, ChainFault } from './chain/chain.js'
import { newestEntries } from './chain/entries.js'
import { own as ownWords } from './chain/record.js'
import { emitMissedEvents } from './events.js'
import { manifest } from './manifest.js'
import { entriesOfOthers, linesOfMember, verifyNodes } from './peers/gather.js'
import { redactedDetails, redactedParts } from './redacted.js'
import type { Audit, Change, Clock, Cluster, NodeView } from '../../kernel/index.js'

export default definePlugin(manifest, async (ctx) => {
  const { deps: { cluster, own }, clock, node, log } = ctx
  const chain = new Chain({
    folder: join(node.home, 'audit'), node: node.installId, now: () => clock.now(),
    onRecord: (record) => { ctx.emit('AuditRecorded', { ...record }) },
    onFault: (why) => {
      if (why === null) ctx.clear('audit_unavailable')
      else ctx.raise('audit_unavailable', why)
    }
  })
  ctx.effect('audit chain', () => chain.close())
  await chain.start()
  ctx.effect('audit events',
    emitMissedEvents({ chain, own, clock, log, node: node.installId, emit: ctx.emit }))
  const parts = { cluster, clock, chain }
  return {
    services: { audit: auditOf(chain, clock) },
    routes: {
      list: async ({ query: { since, who = null, limit, node: ref }, caller, signal, member }) => {
        const wanted = { since: since === undefined ? null : new Date(since).toISOString(), who, limit }
        const nodes = member === null ? nodesOf(cluster, ref) : nodesOf(cluster, 'local')
        const mine = nodes.some(({ self }) => self) ? await newestEntries(chain.newestFirst(), wanted) : []
        const others = nodes.filter(({ self }) => !self)
        const { entries, failed } = await entriesOfOthers(parts, others, wanted, { caller, signal })
        const all = [...mine, ...entries].sort((a, b) => a.at < b.at ? -1 : a.at > b.at ? 1 : a.seq - b.seq)
        return { entries: all.slice(-limit), failed }
      },
      verify: async ({ query: { node: ref }, caller, signal }) => {
        const nodes = await verifyNodes(parts, nodesOf(cluster, ref), { caller, signal })
        return { ok: nodes.every(({ ok }) => ok !== false), nodes }
      },
      export: async (request) => {
        const { query: { node: ref }, caller, signal, member } = request
        const [of] = nodesOf(cluster, member === null ? ref ?? 'local' : 'local')
        const lines = of!.self ? chain.lines() : linesOfMember(parts, of!, { caller, signal })
        const first = await lines.next().catch((error: unknown) => {
          if (!(error instanceof MemberFault)) throw error
          throw kernelError('unreachable', `The node "${of!.name}" ${error.message}.`)
        })
        const stream = request.open({ contentType: 'application/x-ndjson' })
        for (let next = first; next.done !== true && !stream.closed; next = await lines.next()) {
          await stream.write(`${next.value}\n`)
        }
      }
    }
  }
})

const detailOf = ({ detail, parts }: Change): Record<string, unknown> =>
  ({ ...redactedDetails(detail), ...redactedParts(parts) })

function auditOf (chain: Chain, clock: Clock): Audit {
  const refusals = new Refusals()
  return {
    async begin (change) {
      const { who, how, what, bestEffort } = change
      const detail = detailOf(change)
      const record = await chain.append({ who, how, what, detail }).catch((error: unknown) => {
        if (!(error instanceof ChainFault)) throw error
        if (bestEffort === true) {
          chain.miss()
          return null
        }
        throw kernelError('audit_unavailable', 'The change cannot be recorded in the folder audit of ' +
          `this node's home, so it is refused: ${error.message}.`)
      })
      return async ({ status, reason, detail: noted }) => {
        const more = Object.keys(noted).length === 0 ? {} : { noted: redactedDetails(noted) }
        if (record === null) return
        const end = { of: record.seq, status, ...reason === null ? {} : { reason }, ...more }
        await chain.settle({ who, how, what: ownWords.outcome, detail: end })
      }
    },
    refused (change, { status, reason }) {
      const { who, how, what } = change
      const unrecorded = refusals.admit(who, clock.mono())
      if (unrecorded === null) return
      const more = unrecorded === 0 ? {} : { unrecorded }
      // A refusal changes no state, so its record is not awaited and may be lost on a full disk.
      chain.append({ who, how, what, detail: { ...detailOf(change), refused: { status, reason }, ...more } })
        .catch(() => {})
    }
  }
}

/** The node that `ref` names, or all nodes if `ref` is undefined. Throws `node_not_found`. */
function nodesOf (cluster: Cluster, ref: string | undefined): readonly NodeView[] {
  if (ref === undefined) return cluster.nodes()
  const node = cluster.resolve(ref)
  if (node === undefined) throw noSuchNode(ref, cluster.nodes())
  return [node]
}

/** Maximum refusals recorded per caller per hour; all requests without a credential count as one caller. */
export const REFUSALS_AN_HOUR = 10
const HOUR_MS = 3_600_000
/** Maximum number of callers counted at once; each has a token or a grant from this cluster. */
const CALLERS = 1000

export class Refusals {
  readonly #seen = new Map<string, { recorded: number[], left: number }>()

  /** Number of refusals left out before this one; null to leave it out too. `nowMs` is monotonic. */
  admit (who: string, nowMs: number): number | null {
    const known = this.#seen.get(who) ?? { recorded: [], left: 0 }
    if (!this.#seen.has(who) && this.#seen.size >= CALLERS) this.#seen.delete(this.#seen.keys().next().value!)
    this.#seen.set(who, known)
    known.recorded = known.recorded.filter((at) => nowMs - at < HOUR_MS)
    if (known.recorded.length >= REFUSALS_AN_HOUR) {
      known.left++
      return null
    }
    const { left } = known
    known.recorded.push(nowMs)
    known.left = 0
    return left
  }
}
