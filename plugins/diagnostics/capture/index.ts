import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import os from 'node:os'
import { clusterDiagnostics, type HandlerParts } from '../handlers.js'
import { processFacts, type ProcessFacts } from '../report.js'
import { makeBundle, type Part } from './bundle.js'
import type { LogLine, LogRing, RouteRequest } from '../../../kernel/index.js'

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
    ['metrics.txt', 'GET /metrics.', async () => await metrics.text()],
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

/** Process limits that often explain failures. */
const LIMITS = ['Max open files', 'Max processes', 'Max address space', 'Max locked memory']

/** Basic facts about the machine for `svc doctor` and bug reports. Sizes in bytes. */
export async function machineFacts (home: string, process: ProcessFacts): Promise<Record<string, unknown>> {
  const disk = await statfs(home).catch(() => null)
  const cpus = os.cpus()
  return {
    platform: os.platform(),
    architecture: os.arch(),
    system: `${os.type()} ${os.release()}`,
    distribution: fieldOf(textOf('/etc/os-release'), /^PRETTY_NAME="?([^"\n]+)/m),
    processors: cpus.length,
    processor: cpus[0]?.model ?? null,
    loadAverage: os.loadavg(),
    machineUptimeSeconds: os.uptime(),
    memoryTotalBytes: os.totalmem(),
    memoryFreeBytes: os.freemem(),
    memoryLimitOfControlGroup: textOf('/sys/fs/cgroup/memory.max')?.trim() ?? null,
    homeDiskTotalBytes: disk === null ? null : disk.blocks * disk.bsize,
    homeDiskFreeBytes: disk === null ? null : disk.bavail * disk.bsize,
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    process: { ...process, hostname: undefined },
    limits: limitsOf(textOf('/proc/self/limits') ?? '')
  }
}

export function limitsOf (text: string): Record<string, string> {
  return Object.fromEntries(LIMITS.flatMap((name) => {
    const soft = fieldOf(text, new RegExp(`^${name}\\s+(\\S+)`, 'm'))
    return soft === null ? [] : [[name, soft]]
  }))
}

const fieldOf = (text: string | null, pattern: RegExp): string | null => pattern.exec(text ?? '')?.[1] ?? null

function textOf (path: string): string | null {
  try { return readFileSync(path, 'utf8') } catch { return null }
}
