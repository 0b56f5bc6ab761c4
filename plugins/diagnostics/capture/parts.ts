import type { LogLine, LogRing } from '../../../kernel/index.js'
import type { Part } from './bundle.js'

/** Lines of the log that go into a bundle. */
const LOG_LINES = 2000

/** What a bundle is collected from; each is asked once. */
export interface CaptureSources {
  node: () => unknown
  cluster: () => unknown
  timeline: () => unknown
  state: () => unknown
  events: () => unknown
  config: () => unknown
  gossip: () => unknown
  eventLog: () => unknown
  facts: () => unknown
  metrics: () => Promise<string>
  /** Undefined where no lines are kept. */
  log: Pick<LogRing, 'lines'> | undefined
}

/** The parts of a bundle, the most telling first: the last ones are left out when it grows too large. */
export function captureParts (sources: CaptureSources): Part[] {
  const { log } = sources
  const parts: [name: string, what: string, make: () => unknown][] = [
    ['facts.json', 'Machine, system, limits and versions.', sources.facts],
    ['node.json', 'This node: process, runners, flight recorders, plugins, warnings.', sources.node],
    ['cluster.json', 'The same of every node that answered, and why others did not.', sources.cluster],
    ['config.json', 'The settings in force and where each comes from; secrets masked.', sources.config],
    ['timeline.json', 'Events, flight recorders and open tasks of all nodes in one order.', sources.timeline],
    ['events.json', 'Control events that this node told since its start.', sources.events],
    ['event-log.json', 'How the event log is.', sources.eventLog],
    ['telemetry.json', 'How readings get to the other nodes.', sources.gossip],
    ['metrics.txt', 'GET /metrics.', sources.metrics],
    ['state.json', 'GET /state as an operator sees it.', sources.state]
  ]
  if (log !== undefined) {
    parts.push(['log.jsonl', 'The newest lines of this node\'s log, without the output of runners.',
      () => logText(log)])
  }
  return parts.map(([name, what, make]) => ({ name, what, make }))
}

/** What engines print is left out: nobody knows what is in it. */
function logText (log: Pick<LogRing, 'lines'>): string {
  return log.lines().filter(({ source }) => source === 'node').slice(-LOG_LINES).map(lineOf).join('')
}

const lineOf = ({ seq: _seq, source: _source, ...line }: LogLine): string => `${JSON.stringify(line)}\n`
