import type { LogLine, LogRing, RouteRequest } from '../../../kernel/index.js'
import { clusterDiagnostics } from '../handlers.js'
import type { HandlerParts } from '../handlers.js'
import { processFacts } from '../report.js'
import { makeBundle } from './bundle.js'
import { machineFacts } from './facts.js'
import type { Part } from './bundle.js'

/** Maximum control events in a bundle, and maximum log lines. */
const EVENTS = 1000
const LOG_LINES = 2000
/** Size in bytes of the pieces in which a bundle is sent. */
const PIECE_BYTES = 64 * 1024

export async function capture (parts: HandlerParts, request: RouteRequest): Promise<void> {
  const { ctx } = parts
  const { name, bytes } = await makeBundle({
    node: ctx.node.name, version: ctx.node.version, nowMs: ctx.clock.now(), secrets: parts.secrets(),
    parts: captureParts(parts, request)
  })
  const stream = request.open({
    contentType: 'application/gzip',
    headers: {
      'content-disposition': `attachment; filename="${name}"`,
      'content-length': String(bytes.byteLength)
    }
  })
  for (let at = 0; at < bytes.byteLength; at += PIECE_BYTES) {
    await stream.write(bytes.subarray(at, at + PIECE_BYTES))
  }
}

/** The parts of a bundle, most important first, because an oversized bundle loses its last parts. */
function captureParts (parts: HandlerParts, request: RouteRequest): Part[] {
  const { ctx: { deps, node }, own, metrics } = parts
  const rows: [name: string, what: string, make: () => unknown][] = [
    ['facts.json', 'Machine, system, limits and versions.', () => machineFacts(node.home, processFacts())],
    ['node.json', 'This node: process, runners, flight recorders, plugins, warnings.', own],
    ['cluster.json', 'The same for every node that answered, with the errors of the others.',
      () => clusterDiagnostics(parts, request)],
    ['config.json', 'The settings in effect with their origins; secrets masked.',
      () => deps.inspection.config()],
    ['events.json', 'The newest control events of all nodes that are in memory.',
      () => deps.eventLog?.newest(EVENTS) ?? []],
    ['event-log.json', 'State of the event log.', () => deps.eventLog?.status() ?? null],
    ['telemetry.json', 'Counters of the readings sent to other nodes.', () => deps.gossip.counters()],
    ['metrics.txt', 'GET /metrics.', metrics.text],
    ['state.json', 'GET /state as an operator sees it.', () => deps.state.read()]
  ]
  const { log } = deps
  if (log !== undefined) {
    rows.push(['log.jsonl', 'The newest lines of this node\'s log, without the output of runners.',
      () => logText(log)])
  }
  return rows.map(([name, what, make]) => ({ name, what, make }))
}

/** Leaves out engine output, because its contents are unknown. */
function logText (log: Pick<LogRing, 'lines'>): string {
  return log.lines().filter(({ source }) => source === 'node').slice(-LOG_LINES).map(lineOf).join('')
}

const lineOf = ({ seq: _seq, source: _source, ...line }: LogLine): string => `${JSON.stringify(line)}\n`
