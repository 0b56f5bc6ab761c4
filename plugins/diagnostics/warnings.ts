import type { GossipCounters } from '../../kernel/index.js'
import type { EventLogView } from '../event-log/service.js'
import type { Shipping } from '../logs/service.js'
import type { RunnerReport } from '../runners/service.js'

/** How what is kept or sent away is doing; null where nothing keeps or sends it. */
export interface Stores {
  eventLog: Pick<ReturnType<EventLogView['status']>, 'mode' | 'counted' | 'dropped'> | null
  shipping: Pick<Shipping, 'dropped' | 'failures' | 'problem'> | null
  gossip: Pick<GossipCounters, 'enabled' | 'publishFailures'> | null
}

export interface WarningsInput {
  runners: readonly RunnerReport[]
  loopDelayMs: { p99: number }
  stores: Stores
}

/** A loop that is later than this answers slowly, ms. */
const LATE_MS = 250
/** A runner with work inside that gave nothing for this long may hang, seconds. */
const SILENT_SECONDS = 30

/** What an operator should look at, one sentence each with the next step. Pure. */
export function warningsOf ({ runners, loopDelayMs, stores }: WarningsInput): string[] {
  const late = loopDelayMs.p99 > LATE_MS
    ? [`The event loop was late by ${Math.round(loopDelayMs.p99)} ms (p99 since the start): the node ` +
      'answers slowly. Look for a busy machine, or spread the streams over more nodes.']
    : []
  return [...late, ...runners.flatMap(aboutRunner), ...aboutStores(stores)]
}

function aboutRunner (runner: RunnerReport): string[] {
  const { runnerId, modelId, statusKind, restarts, inProgressTasks, chunks } = runner
  const who = `The runner of ${modelId} (${runnerId})`
  const said: string[] = []
  if (statusKind === 'RunnerFailed') {
    said.push(`${who} was given up after ${restarts} restart(s); its flight recorder says why. ` +
      'Place it again.')
  } else if (restarts > 0) {
    said.push(`${who} was started again ${restarts} time(s); its flight recorder says why.`)
  }
  // What it gave before it got this work says nothing: it is in its status since then.
  const silent = Math.min(runner.secondsSinceForward ?? Infinity, runner.secondsInStatus)
  if (inProgressTasks.length > 0 && silent > SILENT_SECONDS) {
    said.push(`${who} works on ${inProgressTasks.length} task(s) and gave nothing for ` +
      `${Math.round(silent)} s. POST /v1/diagnostics/node/runners/${runnerId}/cancel ` +
      'ends them.')
  }
  if (chunks.dropped > 0) said.push(`${who} sent ${chunks.dropped} chunk(s) that were dropped.`)
  return said
}

function aboutStores ({ eventLog, shipping, gossip }: Stores): string[] {
  const said: string[] = []
  if (eventLog !== null && eventLog.mode === 'counting-only') {
    said.push(`The event log only counts (${eventLog.counted} so far): free space on the home's volume.`)
  }
  if (eventLog !== null && eventLog.dropped > 0) {
    said.push(`The event log dropped ${eventLog.dropped} event(s): its disk is too slow.`)
  }
  if (shipping !== null && (shipping.failures > 0 || shipping.dropped > 0)) {
    said.push(`Log lines are not taken at logging.ingest_url (${shipping.dropped} dropped): ` +
      `${shipping.problem ?? 'it works again'}.`)
  }
  if (gossip !== null && gossip.enabled && gossip.publishFailures > 0) {
    said.push(`${gossip.publishFailures} reading(s) could not be sent to other nodes; the log says why.`)
  }
  return said
}
