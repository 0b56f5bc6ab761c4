/** A driver and a donor on two nodes, reduced to the traffic between them. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import {
  kernelError, SvcError, type MemberRequest, type MemberResponse, type Section, type StreamWriter
} from '../../../kernel/index.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/index.js'
import { donorHandler } from '../donors/donor.js'
import { createDrivers, type RpcDrivers } from '../donors/driver.js'
import { roleOf, type Role } from '../donors/role.js'
import { RunnerError } from '../process/errors.js'
import type { RunnerStatus } from '../service.js'
import { stateCard } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { card } from './samples.js'

/** The parts of a tap test that this file uses. */
export interface TestCase { teardown (fn: () => unknown): void }

/** An instance with one node per entry of `layers`; the first node is the driver. */
export function star (
  layers: readonly number[], tag: 'LlamaRpcInstance' | 'RingInstance' = 'LlamaRpcInstance'
): Instance {
  const nLayers = layers.reduce((sum, own) => sum + own, 0)
  const modelCard = stateCard({ ...card('acme/gguf'), nLayers })
  const ids = layers.map((_, i) => `n${i}`)
  let startLayer = 0
  const shards = layers.map((own, deviceRank) => ({ PipelineShardMetadata: {
    modelCard, deviceRank, worldSize: layers.length, nLayers, startLayer, endLayer: startLayer += own
  } }))
  const body = {
    instanceId: 'I', contextTokenLimit: 1, systemRole: null, engine: 'llama-server', hostsByNode: {},
    shardAssignments: {
      modelId: 'acme/gguf',
      // Reversed, so that the nodes are not in the order of their ranks.
      runnerToShard: Object.fromEntries(ids.map((id, i) => [`r-${id}`, shards[i]!] as const).reverse()),
      nodeToRunner: Object.fromEntries(ids.map((id) => [id, `r-${id}`] as const).reverse())
    }
  }
  return tag === 'RingInstance'
    ? { RingInstance: body }
    : { LlamaRpcInstance: { ...body, driverNode: 'n0', donorEndpoints: {} } }
}

/** A TCP server that echoes its input. */
export async function echo (t: TestCase): Promise<{ port: number, sockets: Set<Socket>, close (): void }> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
    socket.pipe(socket)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = (): void => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(close)
  return { port, sockets, close }
}

export interface Pair {
  drivers: RpcDrivers
  clock: ManualClock
  /** Sets the donor's status as the driver's node receives it. */
  status (status: RunnerStatus): void
  /** Opens the driver's local port for the donor. */
  open (): Promise<number>
  /** Sends a request to the donor's node as another cluster member. */
  ask (body: object, member: string | null): Promise<MemberResponse>
  /** Sends a request for the driver's bytes to the driver's node. */
  feed (id: string, member: string): Promise<MemberResponse>
  /** Number of open requests between the two nodes. */
  requests: { open: number }
  /** True if the link between the two nodes is down. */
  lost: { is: boolean }
  /** Reasons for which drivers were restarted. */
  anew: string[]
  /** Number of node look-ups so far. */
  looks: () => number
}

type Handler = (request: never) => Promise<void>

/** Passes a request to a handler, as the link between nodes does. */
function passOn (
  handler: Handler, request: object, signal: AbortSignal | undefined, over: () => void
): Promise<MemberResponse> {
  const body = new PassThrough({ highWaterMark: 1024 })
  const end = new AbortController()
  body.on('error', () => {})
  body.once('close', () => {
    end.abort()
    over()
  })
  signal?.addEventListener('abort', () => { body.destroy(kernelError('cancelled')) })
  const stream = {
    async write (bytes: Uint8Array) {
      if (body.destroyed) throw kernelError('cancelled')
      if (!body.write(bytes)) await Promise.race([once(body, 'drain'), once(body, 'close')])
    },
    async end () { body.end() },
    cut () { if (!body.writableEnded) body.destroy() },
    get closed () { return body.destroyed }
  }
  return new Promise((resolve, reject) => {
    const open = (): StreamWriter => {
      resolve({ status: 200, headers: {}, body })
      return stream
    }
    handler({ ...request, signal: end.signal, open } as never).catch((error: unknown) => {
      body.destroy()
      if (!(error instanceof SvcError)) return reject(error)
      resolve({ status: error.reason === 'not_found' ? 404 : 503, headers: { reason: error.reason },
        body: new PassThrough().end() })
    })
  })
}

/** Two nodes, with the driver on `n0`; `port` is the donor's, null while the donor's runner is not ready. */
export function pair (t: TestCase, port: () => number | null): Pair {
  const instance = star([4, 2])
  const clock = manualClock()
  const ignore = (): void => {}
  const log = { debug: ignore, info: ignore, warn: ignore, error: ignore, fatal: ignore }
  const statuses = new Map<string, RunnerStatus>()
  const watchers = new Set<() => void>()
  const lost = { is: false }
  const requests = { open: 0 }
  const anew: string[] = []
  let looks = 0
  const resolve = (id: string) => {
    looks++
    return { installId: `install-${id.replace('install-', '')}`, live: !lost.is } as never
  }
  const runners = {
    get: (id: string, nodeId: string) => nodeId === 'n1' ? statuses.get(id) : undefined,
    observe (fn: () => void) {
      watchers.add(fn)
      return () => { watchers.delete(fn) }
    }
  } as unknown as Section<RunnerStatus>
  const link = (from: string, handler: () => unknown, made: (request: MemberRequest) => object) =>
    async (_to: string, request: MemberRequest): Promise<MemberResponse> => {
      requests.open++
      return await passOn(handler() as Handler, { ...made(request), member: from }, request.signal,
        () => { requests.open-- })
    }
  const drivers = createDrivers({
    clock, log, runners, newId: randomUUID, lost: (_assignment, message) => { anew.push(message) },
    cluster: { resolve, request: link('install-n0', () => donor, ({ body }) => ({ body })) }
  })
  const feedOf = ({ path }: MemberRequest) => ({ params: { feed_id: path.split('/').at(-1)! } })
  const supervisor = {
    async * open () {
      const at = port()
      if (at === null) throw new RunnerError('instance_lost', 'The runner serves no tasks now.')
      yield { payload: { port: at } }
    }
  }
  const donor = donorHandler({
    nodeId: 'n1', clock, log, newId: randomUUID,
    cluster: { resolve, request: link('install-n1', () => drivers.feed, feedOf) },
    instances: { get: (id: string) => id === 'I' ? instance : undefined } as never,
    fleet: { get: (id) => id === 'r-n1' ? { supervisor } as never : undefined },
    gangs: { connect: async () => await Promise.reject(new Error('no gang')) }
  })
  const role = roleOf(instance, 'n0') as Role & { kind: 'driver' }
  t.teardown(() => { drivers.release('r-n0') })
  return {
    drivers, clock, lost, requests, anew, looks: () => looks,
    status (status) {
      statuses.set('r-n1', status)
      for (const fn of [...watchers]) fn()
    },
    async open () {
      await drivers.prepare({ instanceId: 'I', runnerId: 'r-n0', modelId: 'acme/gguf' }, role)
      const plan = drivers.plan('r-n0', role) as { donors: { address: string }[] }
      return Number(plan.donors[0]!.address.split(':')[1])
    },
    ask: async (body, member) => await passOn(donor, { body, member }, undefined, () => {}),
    feed: async (id, member) =>
      await passOn(drivers.feed, { params: { feed_id: id }, member }, undefined, () => {})
  }
}

/** A TCP client for a port, with the input so far and whether the connection has ended. */
export async function client (t: TestCase, port: number): Promise<{
  socket: Socket, heard: () => Buffer, over: () => boolean
}> {
  const socket = connect(port, '127.0.0.1')
  const pieces: Buffer[] = []
  let over = false
  socket.on('data', (bytes) => { pieces.push(bytes) })
  socket.once('close', () => { over = true })
  t.teardown(() => { socket.destroy() })
  await once(socket, 'connect')
  socket.on('error', () => {})
  return { socket, heard: () => Buffer.concat(pieces), over: () => over }
}
