import type { GossipCounters } from '../../kernel/index.js'
import type { EventLogView } from '../event-log/service.js'
import type { ShippingStats } from '../logs/service.js'
import type { RunnerReport } from '../runners/service.js'

export interface Stores {
  eventLog: Pick<ReturnType<EventLogView['status']>, 'mode' | 'counted' | 'dropped'> | null
  shipping: Pick<ShippingStats, 'dropped' | 'failures' | 'problem'> | null
  gossip: Pick<GossipCounters, 'enabled' | 'publishFailures'> | null
}

export interface WarningsInput {
  runners: readonly RunnerReport[]
  loopDelayMs: { p99: number }
  stores: Stores
}

export interface Warning {
  code: string
  /** The warning and the next step, in one sentence. */
  text: string
}

/** Event loop delay in ms above which the node is reported as slow. */
export const SLOW_LOOP_MS = 250
/** Seconds without output after which a runner with tasks is reported, because it may be stuck. */
const SILENT_SECONDS = 30

type Working = Pick<RunnerReport, 'inProgressTasks' | 'secondsInStatus' | 'secondsSinceForward'>

/** Seconds without output, if more than SILENT_SECONDS and the runner has tasks; otherwise null. */
export function stalledSeconds (runner: Working): number | null {
  const { inProgressTasks, secondsInStatus, secondsSinceForward } = runner
  // The status changes when a task begins, so output before that does not count.
  const silent = Math.min(secondsSinceForward ?? Infinity, secondsInStatus)
  return inProgressTasks.length > 0 && silent > SILENT_SECONDS ? Math.round(silent) : null
}

export function warningsOf ({ runners, loopDelayMs, stores }: WarningsInput): Warning[] {
  const late = loopDelayMs.p99 > SLOW_LOOP_MS
    ? [{
        code: 'loop_was_late',
        text: `The event loop was delayed by ${Math.round(loopDelayMs.p99)} ms (p99 since the start): the ` +
          'node answers slowly. Check for a busy machine, or spread the streams over more nodes.'
      }]
    : []
  return [...late, ...runners.flatMap(aboutRunner), ...aboutStores(stores)]
}

function aboutRunner (runner: RunnerReport): Warning[] {
  const { runnerId, modelId, statusKind, restarts, inProgressTasks, chunks } = runner
  const who = `The runner of ${modelId} (${runnerId})`
  const silent = stalledSeconds(runner)
  const said: [code: string, applies: boolean, text: string][] = [
    ['runner_failed', statusKind === 'RunnerFailed',
      `${who} failed after ${restarts} restart(s); its flight recorder has the reason. Place it again.`],
    ['runner_restarts', statusKind !== 'RunnerFailed' && restarts > 0,
      `${who} was restarted ${restarts} time(s); its flight recorder has the reason.`],
    ['runner_silent', silent !== null,
      `${who} works on ${inProgressTasks.length} task(s), without output for ${silent} s. ` +
      `\`svc stop ${modelId} --now\` ends them.`],
    ['chunks_dropped', chunks.dropped > 0, `${who} sent ${chunks.dropped} chunk(s) that were dropped.`]
  ]
  return applying(said)
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
  return applying(said)
}

function applying (said: readonly [code: string, applies: boolean, text: string][]): Warning[] {
  return said.filter(([, applies]) => applies).map(([code, , text]) => ({ code, text }))
}
