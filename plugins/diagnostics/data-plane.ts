import type { CallQueue, Inspection, LinkReport } from '../../kernel/index.js'
import type { RunnerReport } from '../runners/service.js'

/** What carries requests and their answers through this node, now and so far. Bytes. */
export interface DataPlane {
  /** Open now; all of these are 0 on an idle node. */
  openStreams: number
  openCommands: number
  callsRunning: number
  callsWaiting: number
  runnerTasks: number
  runnerTasksWaiting: number
  chunksBuffered: number
  bytesBuffered: number
  /** Since the start of the runners and links that are there now. */
  chunksReceived: number
  chunksDropped: number
  framesIn: number
  framesOut: number
  bytesIn: number
  bytesOut: number
  /** Each link to another node. */
  links: readonly LinkReport[]
}

export interface DataPlaneInput {
  inspection: Pick<Inspection, 'openStreams' | 'openCommands' | 'links'>
  runners: readonly RunnerReport[]
  queues: readonly CallQueue[]
}

const sum = <T>(all: readonly T[], of: (one: T) => number): number =>
  all.reduce((total, one) => total + of(one), 0)

/** Adds it up. Pure. */
export function dataPlane ({ inspection, runners, queues }: DataPlaneInput): DataPlane {
  const links = inspection.links()
  return {
    openStreams: inspection.openStreams(),
    openCommands: inspection.openCommands(),
    callsRunning: sum(queues, ({ running }) => running),
    callsWaiting: sum(queues, ({ waiting }) => waiting),
    runnerTasks: sum(runners, ({ inProgressTasks }) => inProgressTasks.length),
    runnerTasksWaiting: sum(runners, ({ waitingTasks }) => waitingTasks),
    chunksBuffered: sum(runners, ({ chunks }) => chunks.buffered),
    bytesBuffered: sum(links, ({ buffered }) => buffered),
    chunksReceived: sum(runners, ({ chunks }) => chunks.received),
    chunksDropped: sum(runners, ({ chunks }) => chunks.dropped),
    framesIn: sum(links, ({ framesIn }) => framesIn),
    framesOut: sum(links, ({ framesOut }) => framesOut),
    bytesIn: sum(links, ({ bytesIn }) => bytesIn),
    bytesOut: sum(links, ({ bytesOut }) => bytesOut),
    links
  }
}
