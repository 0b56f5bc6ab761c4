import { Readable } from 'node:stream'
import { Parser } from 'tar'
import type { MemberRequest, MemberResponse, NodeView, GossipCounters } from '../../../kernel/index.js'
import type { EventLogView } from '../../event-log/service.js'
import type { EndedTask, RunnerReport, RunnerWork } from '../../runners/service.js'

/** A report on a runner that is ready and idle. */
export function runnerReport (more: Partial<RunnerReport> = {}): RunnerReport {
  return {
    runnerId: 'r1', instanceId: 'i1', modelId: 'svc/voice-en', pid: 4242, processAlive: true, exitCode: null,
    statusKind: 'RunnerReady', secondsInStatus: 3, phase: 'serving', restarts: 0, flightRecorder: [],
    inProgressTasks: [], completedTaskCount: 7, secondsSinceForward: 1, rssBytes: 1000, estimatedBytes: null,
    hold: 'files', slots: 2, slotsTaken: 0, waitingTasks: 0, waitedSeconds: 0, admittedTaskCount: 7,
    chunks: { received: 21, dropped: 0, buffered: 0 }, ...more
  }
}

export function counters (more: Partial<GossipCounters> = {}): GossipCounters {
  return {
    enabled: true, transport: 'websocket', admissionCapacity: 64, pendingReadings: 2, queueDepth: 2,
    maxQueueDepth: 9, readingsOffered: 40, readingsCoalesced: 5, readingsDropped: 1, readingsPublished: 32,
    publishFailures: 3, noPeerPublishes: 4, bytesPublished: 12_345, lastSuccessfulPublishAgeSeconds: 1.5,
    ...more
  }
}

export function eventLog (more: Partial<ReturnType<EventLogView['status']>> = {}): EventLogView {
  return {
    lastIdx: 42, firstIdx: 3, waiting: 0, newest: () => [],
    status: () => ({
      mode: 'normal', counted: 0, gaps: [], firstIdx: 3, bytes: 4096, queued: 1, dropped: 0, ...more
    })
  }
}

export function endedTask (more: Partial<EndedTask> = {}): EndedTask {
  return {
    taskId: 't1', commandId: 'c1', callerId: 'local', modelId: 'test/chat', capability: 'chat',
    status: 'Complete', entered: true, served: true, heardSeconds: 0,
    seconds: 1.5, firstSeconds: 0.2, tokens: { prompt: 10, cached: 4, generated: 20 }, audioSeconds: 0,
    ...more
  }
}

type Request = Parameters<Parameters<RunnerWork['onRequest']>[0]>[0]

/** A fake RunnerWork; `ended` notifies its listeners of an ended task, `admit` of a request. */
export function runnerWork ():
RunnerWork & { ended (task: EndedTask): void, admit (request: Request): void } {
  const listeners = new Set<(task: EndedTask) => void>()
  const gates = new Set<(request: Request) => void>()
  return {
    onTask (fn) {
      listeners.add(fn)
      return () => { listeners.delete(fn) }
    },
    onRequest (fn) {
      gates.add(fn)
      return () => { gates.delete(fn) }
    },
    admit (request) { for (const fn of gates) fn(request) },
    ended (task) { for (const fn of listeners) fn(task) }
  }
}

export function nodeView (name: string, more: Partial<NodeView> = {}): NodeView {
  return {
    name, nodeId: `id-${name}`, installId: `install-${name}`, self: false, live: true, master: false,
    apiUrl: null, ...more
  }
}

export type Answer = (request: MemberRequest) => Promise<MemberResponse> | MemberResponse

/** An answer whose body is sent as JSON, or unchanged if it is a string. */
export function answer (body: unknown, status = 200): MemberResponse {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { status, headers: {}, body: Readable.from([Buffer.from(text)]) }
}

/** A fake cluster of this node and others, which give fixed answers. */
export function fakeCluster (others: Record<string, Answer>, gone: readonly string[] = []) {
  const asked: { to: string, request: MemberRequest }[] = []
  const nodes = [nodeView('me', { self: true, master: true }),
    ...[...Object.keys(others), ...gone].map((name) => nodeView(name, { live: !gone.includes(name) }))]
  return {
    asked,
    self: { installId: 'install-me', nodeId: 'id-me' },
    nodes: () => nodes,
    async request (installId: string, request: MemberRequest): Promise<MemberResponse> {
      asked.push({ to: installId, request })
      return await others[installId.replace('install-', '')]!(request)
    }
  }
}

/** Extracts the files of a tar archive. */
export function unpackTar (tar: Buffer): { name: string, bytes: Buffer }[] {
  const files: { name: string, bytes: Buffer }[] = []
  new Parser({
    strict: true,
    onReadEntry: (entry) => {
      const parts: Buffer[] = []
      entry.on('data', (part) => { parts.push(part as Buffer) })
      entry.on('end', () => { files.push({ name: entry.path, bytes: Buffer.concat(parts) }) })
    }
  }).end(tar)
  return files
}
