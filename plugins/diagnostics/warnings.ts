import { factOf } from '../../kernel/cli/index.js'
import type { GossipCounters } from '../../kernel/index.js'
import type { EventLogView } from '../event-log/service.js'
import type { ShippingStats } from '../logs/service.js'
import type { RunnerReport } from '../runners/service.js'
import { checkProcess, checkRunner, type NodeDiagnostics } from './checks/inside.js'

export interface Stores {
  eventLog: Pick<ReturnType<EventLogView['status']>, 'mode' | 'counted' | 'dropped'> | null
  shipping: Pick<ShippingStats, 'dropped' | 'failures' | 'problem'> | null
  gossip: Pick<GossipCounters, 'enabled' | 'publishFailures'> | null
}

export interface WarningsInput {
  /** The node's name. */
  node: string
  runners: readonly RunnerReport[]
  resources: NodeDiagnostics['resources']
  stores: Stores
}

export interface Warning {
  code: string
  /** The warning and the next step. */
  text: string
}

/** A node's warnings: what `svc doctor` checks at runners and the process, and faults of its stores. */
export function warningsOf ({ node, runners, resources, stores }: WarningsInput): Warning[] {
  const checks = [...checkProcess(node, resources), ...runners.flatMap((one) => checkRunner(node, one))]
  return [
    ...checks.map(factOf).map(({ code, text, remedy }) => ({ code, text: `${text} ${remedy ?? ''}`.trim() })),
    ...runners.filter(({ chunks }) => chunks.dropped > 0).map(({ runnerId, modelId, chunks }) => ({
      code: 'chunks_dropped',
      text: `The runner of ${modelId} (${runnerId}) sent ${chunks.dropped} chunk(s) that were dropped.`
    })),
    ...aboutStores(stores)
  ]
}

function aboutStores ({ eventLog, shipping, gossip }: Stores): Warning[] {
  const said: [code: string, applies: boolean, text: string][] = [
    ['event_log_counting', eventLog?.mode === 'counting-only',
      `The event log only counts (${eventLog?.counted} so far): free disk space on the home's volume.`],
    ['event_log_dropping', (eventLog?.dropped ?? 0) > 0,
      `The event log dropped ${eventLog?.dropped} event(s): its disk is too slow.`],
    [shipping?.problem == null ? 'log_shipping_back' : 'log_shipping_failed',
      (shipping?.failures ?? 0) > 0 || (shipping?.dropped ?? 0) > 0,
      `logging.ingest_url does not accept log lines (${shipping?.dropped} dropped): ` +
      `${shipping?.problem ?? 'it works again'}.`],
    ['readings_unsent', gossip?.enabled === true && gossip.publishFailures > 0,
      `${gossip?.publishFailures} reading(s) could not be sent to other nodes; the log has the reason.`]
  ]
  return said.filter(([, applies]) => applies).map(([code, , text]) => ({ code, text }))
}
