import { PassThrough, Readable } from 'node:stream'
import { createLogRing } from '../../../kernel/observe/log-ring.js'
import { fake, startPlugin } from '../../../kernel/testing/index.js'
import { ClusterService, LogRingService } from '../../../kernel/index.js'
import logs from '../index.js'
import type { MemberRequest, MemberResponse, NodeView } from '../../../kernel/index.js'
import type { LogRingEnd } from '../../../kernel/observe/log-ring.js'
import type { Rig, StartOptions, TestContext } from '../../../kernel/testing/index.js'
import type { ShownLine } from '../lines.js'

export type Answer = (request: MemberRequest) => Promise<MemberResponse> | MemberResponse

export interface LogsRig extends Rig {
  ring: LogRingEnd
  /** Requests that the plugin sent to other nodes. */
  asked: { installId: string, path: string }[]
  /** The other nodes; a test may change them. */
  peers: Map<string, { view: NodeView, answer: Answer }>
}

export const viewOf = (name: string, more: Partial<NodeView> = {}): NodeView => ({
  nodeId: `id-${name}`, installId: `in-${name}`, name, self: false, live: true, master: false, apiUrl: null,
  ...more
})

/** Starts the plugin on a real kernel, with a log ring that the test fills and with simulated other nodes. */
export async function startLogs (t: TestContext, options: StartOptions = {}): Promise<LogsRig> {
  const peers: LogsRig['peers'] = new Map()
  const asked: LogsRig['asked'] = []
  let self = viewOf('me', { self: true, master: true })
  let ring: LogRingEnd | undefined
  const views = (): NodeView[] => [self, ...[...peers.values()].map(({ view }) => view)]
  const cluster = fake(ClusterService, {
    nodes: views,
    resolve: (ref) => ref === 'local' ? self
      : views().find(({ nodeId, installId, name }) => [nodeId, installId, name].includes(ref)),
    async request (installId, request) {
      asked.push({ installId, path: request.path })
      return await peers.get(installId)!.answer(request)
    }
  })
  const late = new Proxy({} as LogRingEnd, { get: (_, key) => Reflect.get(ring ?? {}, key) as unknown })
  const fakes = [cluster, { id: LogRingService.id, instance: late }]
  const rig = await startPlugin(t, logs, { ...options, fakes })
  ring = createLogRing({ clock: rig.clock, lines: 500 })
  const own = (await rig.inject({ url: '/v1/logs' })).json() as { nodeId: string }
  self = { ...self, nodeId: own.nodeId }
  return Object.assign(rig, { ring, asked, peers })
}

export function say (ring: LogRingEnd, msg: string, fields: Record<string, unknown> = {}): void {
  ring.push(JSON.stringify({ level: 30, msg, plugin: 'chat', ...fields }))
}

export const lineAt = (seq: number, at: string, more: Partial<ShownLine> = {}): ShownLine => ({
  nodeId: 'whoever', node: 'liar', seq, at, level: 'info', source: 'node', plugin: 'chat', modelId: null,
  runnerId: null, message: `m${seq}`, fields: {}, ...more
})

export const json = (value: unknown, status = 200): MemberResponse => ({
  status, headers: {},
  body: Readable.from([Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))])
})

/** A response body that the test writes step by step. */
export function stream (): {
  response: MemberResponse, body: PassThrough, send: (...lines: ShownLine[]) => void
} {
  const body = new PassThrough()
  return {
    response: { status: 200, headers: {}, body },
    body,
    send: (...lines) => { for (const line of lines) body.write(`data: ${JSON.stringify(line)}\n\n`) }
  }
}

export interface Followed {
  events (): { type: string, id: string | null, data: unknown }[]
  text (): string
  stop (): void
}

/** Follows an event stream from the rig; the result gives access to the events received so far. */
export async function followed (
  rig: Rig, path: string, headers: Record<string, string> = {}
): Promise<Followed> {
  const there = rig.app.server.address() as { port: number } | null
  const url = there === null ? await rig.listen() : `http://127.0.0.1:${there.port}`
  const stop = new AbortController()
  const answer = await fetch(`${url}${path}`, { signal: stop.signal, headers })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
  let text = ''
  void (async () => {
    const decoder = new TextDecoder()
    for await (const part of answer.body!) text += decoder.decode(part as Uint8Array, { stream: true })
  })().catch(() => {})
  const events: Followed['events'] = () =>
    text.split('\n\n').filter((block) => block.includes('data: ')).map((block) => ({
      type: /^event: (.*)$/m.exec(block)?.[1] ?? 'message',
      id: /^id: (.*)$/m.exec(block)?.[1] ?? null,
      data: JSON.parse(/^data: (.*)$/m.exec(block)![1]!) as unknown
    }))
  return { events, text: () => text, stop: () => { stop.abort() } }
}

/** Advances the clock in steps until `holds()` is true. Throws after 20 s of real time. */
export async function until (rig: Rig, what: string, holds: () => boolean, stepMs = 100): Promise<void> {
  const end = performance.now() + 20_000
  while (!holds()) {
    if (performance.now() > end) throw new Error(`never happened: ${what}`)
    if (stepMs > 0) await rig.clock.advance(stepMs)
    await new Promise((resolve) => { setTimeout(resolve, 2) })
  }
}
